// Processes that train together, and what they tell each other. Every call that is not said to be
// one process's own is made by all of them, in the same order. MPI itself is in mpi.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pippin::dist {

enum class Element : std::uint8_t { Float32, Float64, Int64 };
enum class Op : std::uint8_t { Sum, Max };

/// A way to talk to the other processes. All calls come from one thread; none blocks but finish().
class Transport {
  public:
    using Request = std::int64_t;
    virtual ~Transport() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual int local_rank() const = 0;
    /// In place. All memory stays where it is until the request has ended.
    virtual Request start_all_reduce(void* data, std::size_t count, Element type, Op op) = 0;
    virtual Request start_broadcast(void* data, std::size_t bytes, int from) = 0;
    /// `to` has room for `bytes` of every process, in their order.
    virtual Request start_all_gather(const void* from, void* to, std::size_t bytes) = 0;
    virtual Request start_barrier() = 0;
    /// Whether it has ended; true only once.
    virtual bool ended(Request r) = 0;
    /// Says good-bye to the others; waits for theirs.
    virtual void finish() = 0;
};
/// Null where the program was not started as one of several processes. Error where it was, but this
/// build has no MPI.
std::unique_ptr<Transport> make_transport();
/// This process's rank as mpirun told it, whether or not it has joined the others; -1 where it was
/// not started as one of several.
int started_rank();
/// Whether this build can train with several processes.
bool has_transport();

struct Place {
    int rank = 0, size = 1, local_rank = 0;
};
/// Where this process stands. The first call joins the others.
const Place& place();
/// The same, without joining: a process that has not joined stands alone.
const Place& place_so_far();

/// The thread that talks to the others does one task after the other, so that the order of calls is
/// the program's.
class Talk {
  public:
    virtual ~Talk() = default;
    virtual Transport& transport() = 0;
    /// Rests a moment; longer the longer nothing has happened. Throws when this process is to end,
    /// which leaves the others to their fate.
    virtual void rest(int& rests) = 0;
    void wait(Transport::Request r);
};
/// Does not wait. The task throws nothing but what rest() threw.
void post(std::function<void(Talk&)> task);

// These wait, and do nothing where there is one process.
void barrier();
void all_reduce(void* data, std::size_t count, Element type, Op op);
void broadcast(void* data, std::size_t bytes, int from = 0);
/// `bytes` of each process, one behind the other.
std::vector<std::byte> all_gather(const void* data, std::size_t bytes);
/// Texts of any length, by process.
std::vector<std::string> all_gather(const std::string& text);
std::string broadcast(const std::string& text, int from = 0);
/// Runs f here and in the other processes; where it throws in one of them, this throws in all:
/// its own error, or one (of the same kind, where it is a FileError or ValueError) that names the
/// first process that failed and says why.
void together(const std::function<void()>& f);

/// All processes have agreed to end with an exit code that is not 0: that is no failure.
void expect_exit();
/// An error ends what this process does, so it will not wait for the others at its end. (Where the
/// C library tells exit handlers the exit code, that alone decides.)
void give_up();

}  // namespace pippin::dist
