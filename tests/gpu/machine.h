// A GPU made of fibers: kernels as plain C++, compiled when a test runs.
#pragma once

#include <dlfcn.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/gpu/kernel.h"
#include "common/temp_folder.h"

namespace pippin::gpu_test {

inline constexpr std::size_t kStack = 256 << 10;

/// The compiled kernels, and the threads of the group that runs.
class Machine {
  public:
    explicit Machine(const std::vector<gpu::KernelSource>& kernels) {
        std::string text = gpu::cpp_prelude();
        text +=
            "uint fiber_lane, fiber_group;\nconst std::uint64_t* fiber_arguments;\nvoid "
            "(*yield_)();\n"
            "void yield() { yield_(); }\n";
        std::string table = "extern \"C\" {\nvoid (*bodies[])() = {";
        for (std::size_t k = 0; k < kernels.size(); ++k) {
            const std::string name = "k" + std::to_string(k);
            text += gpu::render_cpp(kernels[k], name);
            table += name + "::body, ";
        }
        text += table +
                "};\nuint& lane_() { return fiber_lane; }\nuint& group_() { return fiber_group; }\n"
                "const std::uint64_t*& arguments_() { return fiber_arguments; }\n"
                "void set_yield(void (*f)()) { yield_ = f; }\n}\n";
        const auto source = folder_ / "kernels.cpp", library = folder_ / "kernels.so";
        std::ofstream(source) << text;
        // No contraction of products and sums: the interpreter's bounds count each rounding.
        const std::string command = "c++ -std=c++20 -O1 -ffp-contract=off -fPIC -shared -o " +
                                    library.string() + " " + source.string() + " 2>&1";
        if (std::system(command.c_str()) != 0) throw std::runtime_error("it does not compile");
        library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library_) throw std::runtime_error(dlerror());
        bodies_ = reinterpret_cast<void (*const*)()>(dlsym(library_, "bodies"));
        lane_ = &reinterpret_cast<std::uint32_t& (*)()>(dlsym(library_, "lane_"))();
        group_ = &reinterpret_cast<std::uint32_t& (*)()>(dlsym(library_, "group_"))();
        arguments_ =
            &reinterpret_cast<const std::uint64_t*& (*)()>(dlsym(library_, "arguments_"))();
        reinterpret_cast<void (*)(void (*)())>(dlsym(library_, "set_yield"))(&Machine::yield);
    }
    ~Machine() { dlclose(library_); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    void run(std::int32_t kernel, int threads, std::int64_t groups, const std::uint64_t* args) {
        current_ = this;
        *arguments_ = args;
        stacks_.resize(kStack * static_cast<std::size_t>(threads));
        for (std::int64_t g = 0; g < groups; ++g) {
            *group_ = static_cast<std::uint32_t>(g);
            fibers_.assign(static_cast<std::size_t>(threads), {});
            live_ = threads;
            for (std::size_t t = 0; t < fibers_.size(); ++t) {
                Fiber& f = fibers_[t];
                getcontext(&f.context);
                f.context.uc_stack.ss_sp = stacks_.data() + kStack * t;
                f.context.uc_stack.ss_size = kStack;
                f.context.uc_link = &main_;
                f.body = bodies_[kernel];
                makecontext(&f.context, &Machine::start, 0);
            }
            // All threads up to the next barrier, again and again.
            while (live_ > 0)
                for (at_ = 0; at_ < fibers_.size(); ++at_)
                    if (!fibers_[at_].done) {
                        *lane_ = static_cast<std::uint32_t>(at_);
                        swapcontext(&main_, &fibers_[at_].context);
                    }
        }
    }

  private:
    struct Fiber {
        ucontext_t context;
        void (*body)() = nullptr;
        bool done = false;
    };
    static void start() {
        Fiber& f = current_->fibers_[current_->at_];
        f.body();
        f.done = true;
        --current_->live_;
    }
    static void yield() {
        swapcontext(&current_->fibers_[current_->at_].context, &current_->main_);
    }

    static inline Machine* current_ = nullptr;
    test::TempFolder folder_;
    void* library_ = nullptr;
    void (*const* bodies_)() = nullptr;
    std::uint32_t *lane_ = nullptr, *group_ = nullptr;
    const std::uint64_t** arguments_ = nullptr;
    std::vector<Fiber> fibers_;
    std::vector<char> stacks_;
    ucontext_t main_{};
    std::size_t at_ = 0;
    int live_ = 0;
};

}  // namespace pippin::gpu_test
