// Memory of nodes. A step makes and frees thousands at once, and malloc would give their pages back
// to the system each time; so each thread keeps a list of free blocks.
#include <new>
#include <vector>

#include "graph/node.h"
#include "profile/sites.h"

namespace pippin::graph {
namespace {

class FreeList {
  public:
    FreeList() { alive = true; }
    ~FreeList() {
        alive = false;
        for (void* block : blocks_)
            free(block);
    }
    void* take(std::size_t bytes) {
        if (blocks_.empty()) return ::operator new(bytes, kLine);
        void* block = blocks_.back();
        blocks_.pop_back();
        // Blocks are cold after a step's kernels: one that will be used soon is fetched meanwhile.
        if (blocks_.size() > 3) {
            const auto* ahead = static_cast<const char*>(blocks_[blocks_.size() - 4]);
            for (std::size_t line = 0; line < bytes; line += 64)
                __builtin_prefetch(ahead + line, 1);
        }
        return block;
    }
    void give(void* block) {
        if (blocks_.size() < kMost)
            blocks_.push_back(block);
        else
            free(block);
    }
    static void free(void* block) { ::operator delete(block, kLine); }
    static thread_local bool alive;  // false again once the thread's objects are destroyed

  private:
    static constexpr std::size_t kMost = 1 << 15;
    static constexpr std::align_val_t kLine{64};  // of cache: a flush reads two of each node
    std::vector<void*> blocks_;
};
thread_local bool FreeList::alive = false;
thread_local FreeList free_list;

// allocate_shared asks it for one type only, so that all blocks of a list have one size.
template <class T>
struct Pool {
    using value_type = T;
    Pool() = default;
    template <class U>
    Pool(const Pool<U>&) {}
    T* allocate(std::size_t) { return static_cast<T*>(free_list.take(sizeof(T))); }
    void deallocate(T* p, std::size_t) {
        if (FreeList::alive)
            free_list.give(p);
        else
            FreeList::free(p);
    }
    template <class U>
    bool operator==(const Pool<U>&) const {
        return true;
    }
};

}  // namespace

std::shared_ptr<Node> new_node() {
#ifdef __SANITIZE_ADDRESS__  // which should see nodes come and go
    auto node = std::make_shared<Node>();
#else
    auto node = std::allocate_shared<Node>(Pool<Node>{});
#endif
    if (recording::on()) recording::mark_node(node.get());
    return node;
}

}  // namespace pippin::graph
