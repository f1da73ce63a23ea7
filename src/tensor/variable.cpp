#include "tensor/variable.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include <fmt/format.h>

namespace pippin {

// Lists outlive their threads: a tensor may be destroyed after the thread that made it.
struct PendingList {
    std::vector<Variable*> items;
    std::uint64_t next = 0;
};

namespace {

std::mutex& registry_mutex() {
    static std::mutex* m = new std::mutex;
    return *m;
}

PendingList* new_list() {
    static auto* all = new std::vector<std::unique_ptr<PendingList>>;
    std::lock_guard lock(registry_mutex());
    return all->emplace_back(std::make_unique<PendingList>()).get();
}

PendingList& my_list() {
    thread_local PendingList* list = new_list();
    return *list;
}

}  // namespace

void Variable::set(graph::NodePtr n) {
    const bool pending = n && !n->value;
    if (!pending)
        settled.reset();
    else if (node && node->value)
        settled = node;
    node = std::move(n);
    if (!pending) return unlink();
    if (list) return;
    PendingList& mine = my_list();
    std::lock_guard lock(registry_mutex());
    list = &mine;
    position = mine.items.size();
    order = mine.next++;
    mine.items.push_back(this);
}

void Variable::unlink() {
    if (!list) return;
    std::lock_guard lock(registry_mutex());
    Variable* last = list->items.back();
    list->items[position] = last;
    last->position = position;
    list->items.pop_back();
    list = nullptr;
}

std::vector<Variable*> pending_variables() {
    PendingList& mine = my_list();
    std::vector<Variable*> out;
    {
        std::lock_guard lock(registry_mutex());
        out = mine.items;
    }
    std::sort(out.begin(), out.end(),
              [](const Variable* a, const Variable* b) { return a->order < b->order; });
    return out;
}

const graph::NodePtr& node_of(const Tensor& t, const char* what) {
    if (!t.defined()) throw ValueError(fmt::format("{} is undefined (an empty Tensor)", what));
    return t.variable()->node;
}

}  // namespace pippin
