#include "profile/sites.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace pippin::recording {
namespace {

// Nodes are many and made fast: one slot an address, without a lock. Where two addresses share a
// slot, the later one has it and the other's site is unknown.
class NodeTable {
  public:
    void put(const void* node, Site s) {
        Slot& slot = slot_of(node);
        if (!s && slot.node.load(std::memory_order_relaxed) != node) return;
        slot.node.store(nullptr, std::memory_order_relaxed);
        slot.site.store(s, std::memory_order_release);
        slot.node.store(node, std::memory_order_release);
    }
    Site get(const void* node) {
        Slot& slot = slot_of(node);
        if (slot.node.load(std::memory_order_acquire) != node) return nullptr;
        return slot.site.load(std::memory_order_acquire);
    }
    void clear() {
        for (Slot& s : slots_)
            s.node.store(nullptr, std::memory_order_relaxed);
    }

  private:
    static constexpr int kBits = 18;
    struct Slot {
        std::atomic<const void*> node{nullptr};
        std::atomic<Site> site{nullptr};
    };
    Slot& slot_of(const void* node) {
        const auto a = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(node));
        return slots_[(a * 0x9e3779b97f4a7c15u) >> (64 - kBits)];
    }
    std::vector<Slot> slots_ = std::vector<Slot>(std::size_t{1} << kBits);
};

// Never destroyed, as nodes may be made until the program ends.
struct Table {
    std::mutex mutex;
    std::set<std::string> texts;
    std::unordered_map<const void*, Site> launches;
    NodeTable nodes;
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

void mark_node(const void* node) { table().nodes.put(node, current); }
Site site_of_node(const void* node) { return table().nodes.get(node); }

void mark_launch(const void* launch, Site s) {
    if (!s) return;
    Table& t = table();
    std::lock_guard lock(t.mutex);
    t.launches[launch] = s;
}

Site take_site_of_launch(const void* launch) {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    const auto it = t.launches.find(launch);
    if (it == t.launches.end()) return nullptr;
    const Site s = it->second;
    t.launches.erase(it);
    return s;
}

void clear_sites() {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    t.launches.clear();
    t.nodes.clear();
}

}  // namespace pippin::recording
