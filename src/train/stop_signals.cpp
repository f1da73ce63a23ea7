// SIGINT and SIGTERM ask a run to end after its step.
#include <time.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "train/accelerator_impl.h"

namespace pippin {
namespace {

volatile std::sig_atomic_t received_signal = 0;
std::atomic<std::int64_t> first_at{0};  // milliseconds

std::int64_t now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1000000;
}

void on_signal(int number) {
    if (received_signal == 0) {
        first_at = now();
        received_signal = number;
        return;
    }
    // The same request often comes twice: a terminal tells the whole group, and launchers (timeout,
    // mpirun) pass it on. Later, it is a person who does not want to wait: as if nobody had caught
    // it.
    if (now() - first_at < 500) return;
    std::signal(number, SIG_DFL);
    std::raise(number);
}

std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
}
int holders = 0;
struct sigaction before_int, before_term;

}  // namespace

StopSignals::StopSignals() {
    const std::lock_guard lock(mutex());
    if (holders++ > 0) return;
    received_signal = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;  // reads and waits of the program go on
    sigaction(SIGINT, &action, &before_int);
    sigaction(SIGTERM, &action, &before_term);
    // What the parent ignores stays ignored: a run under nohup, say.
    if (before_int.sa_handler == SIG_IGN) sigaction(SIGINT, &before_int, nullptr);
    if (before_term.sa_handler == SIG_IGN) sigaction(SIGTERM, &before_term, nullptr);
}

StopSignals::~StopSignals() {
    const std::lock_guard lock(mutex());
    if (--holders > 0) return;
    sigaction(SIGINT, &before_int, nullptr);
    sigaction(SIGTERM, &before_term, nullptr);
}

int StopSignals::received() { return received_signal; }

}  // namespace pippin
