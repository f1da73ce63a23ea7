#include "profile/launches.h"

#include "plan/describe.h"
#include "profile/sites.h"

namespace pippin::recording {

std::vector<WorkPtr> describe(const plan::Plan& plan) {
    std::vector<WorkPtr> out;
    out.reserve(plan.launches.size());
    for (const plan::Launch& l : plan.launches) {
        auto w = std::make_shared<Work>();
        w->name = l.name;
        w->category = Category::Launch;
        w->kind = plan::kind_of(l);
        w->shapes = plan::shapes_of(l);
        const void* key = l.heavy ? static_cast<const void*>(l.heavy.get()) : l.program.get();
        if (const Site s = on() ? take_site_of_launch(key) : nullptr) w->site = *s;
        w->bytes = l.bytes_moved;
        w->flops = l.flops;
        out.push_back(std::move(w));
    }
    return out;
}

}  // namespace pippin::recording
