#include "profile/sites.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

namespace pippin::recording {
namespace {

// Never destroyed, as nodes may be made until the program ends.
struct Table {
    std::mutex mutex;
    std::set<std::string> texts;
    std::unordered_map<const void*, Site> of;
};
Table& table() {
    static auto* t = new Table;
    return *t;
}

thread_local Site current = nullptr;

}  // namespace

Site site(const std::string& text) {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    return &*t.texts.insert(text).first;
}

Site joined(const std::vector<Site>& sites) {
    constexpr std::size_t enough = 4;
    std::vector<Site> seen;
    std::string text, line;  // "a, b" and " at train.cpp:40", which is said once
    for (const Site s : sites) {
        if (!s || seen.size() == enough || std::find(seen.begin(), seen.end(), s) != seen.end())
            continue;
        seen.push_back(s);
        const std::size_t cut = std::min(s->find(" at "), s->size());
        if (s->substr(cut) != line) {
            text += line;
            line = s->substr(cut);
        }
        text += (text.empty() ? "" : ", ") + s->substr(0, cut);
    }
    text += line;
    return text.empty() ? nullptr : site(text);
}

MadeAt::MadeAt(Site s) : before_(current) { current = s; }
MadeAt::~MadeAt() { current = before_; }

void mark(const void* node) { mark(node, current); }

void mark(const void* thing, Site s) {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    if (s)
        t.of[thing] = s;
    else
        t.of.erase(thing);
}

Site site_of(const void* thing) {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    const auto it = t.of.find(thing);
    return it == t.of.end() ? nullptr : it->second;
}

Site take_site(const void* thing) {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    const auto it = t.of.find(thing);
    if (it == t.of.end()) return nullptr;
    const Site s = it->second;
    t.of.erase(it);
    return s;
}

void clear_sites() {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    t.of.clear();
}

}  // namespace pippin::recording
