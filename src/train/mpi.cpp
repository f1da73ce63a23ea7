// The one file that knows MPI.
#include <cstdlib>

#include "pippin/error.h"
#include "train/distributed.h"

#ifdef PIPPIN_HAS_MPI
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <map>
#endif

namespace pippin::dist {
namespace {

// What mpirun tells a process before it has joined: programs that are started alone, which are
// most, do without MPI.
int processes_started() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
        if (const char* text = std::getenv(name)) return std::atoi(text);
    return 1;
}

#ifdef PIPPIN_HAS_MPI

class Mpi : public Transport {
  public:
    Mpi() {
        int level = 0, done = 0;
        check(MPI_Initialized(&done));
        if (done)
            throw Error(
                "Accelerator: the program has called MPI_Init itself; Pippin does that, on a "
                "thread "
                "of its own");
        check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level));
        check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
        check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
        MPI_Comm local = MPI_COMM_NULL;
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL,
                                  &local));
        check(MPI_Comm_rank(local, &local_rank_));
        check(MPI_Comm_free(&local));
    }
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    int local_rank() const override { return local_rank_; }

    Request start_all_reduce(void* data, std::size_t count, Element type, Op op) override {
        const MPI_Datatype t = type == Element::Float32   ? MPI_FLOAT
                               : type == Element::Float64 ? MPI_DOUBLE
                                                          : MPI_INT64_T;
        const std::size_t size = type == Element::Float32 ? 4 : 8;
        return in_parts(count, [&](std::size_t from, int n, MPI_Request* r) {
            check(MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data) + from * size, n, t,
                                 op == Op::Sum ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD, r));
        });
    }
    Request start_broadcast(void* data, std::size_t bytes, int root) override {
        return in_parts(bytes, [&](std::size_t from, int n, MPI_Request* r) {
            check(
                MPI_Ibcast(static_cast<char*>(data) + from, n, MPI_BYTE, root, MPI_COMM_WORLD, r));
        });
    }
    Request start_all_gather(const void* from, void* to, std::size_t bytes) override {
        // As broadcasts, one a process: parts of a gather would lie in each other's way.
        auto* out = static_cast<char*>(to);
        std::copy_n(static_cast<const char*>(from), bytes,
                    out + static_cast<std::size_t>(rank_) * bytes);
        std::vector<MPI_Request> all;
        for (int k = 0; k < size_; ++k) {
            const Request r = start_broadcast(out + static_cast<std::size_t>(k) * bytes, bytes, k);
            std::vector<MPI_Request> parts = take(r);
            all.insert(all.end(), parts.begin(), parts.end());
        }
        return keep(std::move(all));
    }
    Request start_barrier() override {
        MPI_Request r = MPI_REQUEST_NULL;
        check(MPI_Ibarrier(MPI_COMM_WORLD, &r));
        return keep({r});
    }
    bool ended(Request r) override {
        std::vector<MPI_Request>& parts = pending_.at(r);
        int done = 0;
        check(
            MPI_Testall(static_cast<int>(parts.size()), parts.data(), &done, MPI_STATUSES_IGNORE));
        if (done) pending_.erase(r);
        return done != 0;
    }
    void finish() override { MPI_Finalize(); }

  private:
    static constexpr std::size_t kPart = std::size_t{1} << 28;  // counts are ints in MPI

    // MPI's own handler ends all processes on an error; this is for implementations that return.
    static void check(int code) {
        if (code == MPI_SUCCESS) return;
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(code, text, &length);
        throw Error(std::string("MPI: ") + text);
    }
    template <class Start>
    Request in_parts(std::size_t count, Start start) {
        std::vector<MPI_Request> parts;
        for (std::size_t from = 0; from < count; from += kPart) {
            parts.push_back(MPI_REQUEST_NULL);
            start(from, static_cast<int>(std::min(kPart, count - from)), &parts.back());
        }
        return keep(std::move(parts));
    }
    Request keep(std::vector<MPI_Request> parts) {
        pending_.emplace(++last_, std::move(parts));
        return last_;
    }
    std::vector<MPI_Request> take(Request r) { return std::move(pending_.extract(r).mapped()); }

    int rank_ = 0, size_ = 1, local_rank_ = 0;
    Request last_ = 0;
    std::map<Request, std::vector<MPI_Request>> pending_;
};

#endif

}  // namespace

int started_rank() {
    if (processes_started() <= 1) return -1;
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MPI_LOCALRANKID"})
        if (const char* text = std::getenv(name)) return std::atoi(text);
    return -1;
}

bool has_transport() {
#ifdef PIPPIN_HAS_MPI
    return true;
#else
    return false;
#endif
}

std::unique_ptr<Transport> make_transport() {
    if (processes_started() <= 1) return nullptr;
#ifdef PIPPIN_HAS_MPI
    return std::make_unique<Mpi>();
#else
    throw Error(
        "this program was started as one of several processes, but this build of Pippin has no "
        "MPI: install OpenMPI (Debian: libopenmpi-dev openmpi-bin) and build again with "
        "-D PIPPIN_MPI=ON, or start one process");
#endif
}

}  // namespace pippin::dist
