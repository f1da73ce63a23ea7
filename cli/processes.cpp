#include "processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "pippin/error.h"
#include "system.h"
#include "train/distributed.h"
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;

std::string find_mpirun() {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
        if (!folder.empty() && is_executable(fs::path(folder) / "mpirun"))
            return (fs::path(folder) / "mpirun").string();
    throw FileError(
        "several processes are started by mpirun, which was not found; install "
        "OpenMPI (Debian: apt install openmpi-bin), or say --num_processes 1");
}

std::vector<std::string> command_line(const std::string& mpirun, const fs::path& program,
                                      const std::vector<std::string>& arguments, int processes) {
    std::vector<std::string> line{mpirun};
    const std::string version = output_of({mpirun, "--version"});
    if (version.find("Open MPI") != std::string::npos ||
        version.find("OpenRTE") != std::string::npos) {
        // More processes than cores are fine, and threads are not tied to the core of their
        // process.
        line.insert(line.end(), {"--oversubscribe", "--bind-to", "none", "--quiet"});
        if (::geteuid() == 0) line.emplace_back("--allow-run-as-root");
        // Containers forbid the copies from one process into another that it would try.
        ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    }
    line.insert(line.end(), {"-n", std::to_string(processes), program.string()});
    line.insert(line.end(), arguments.begin(), arguments.end());
    return line;
}

// The processes that mpirun has started. It would not pass SIGINT and SIGTERM on, but kill them a
// second later, in the middle of the step that they are to finish.
std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> out;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream in(entry.path() / "stat");
        std::string text((std::istreambuf_iterator<char>(in)), {});
        const std::size_t end = text.rfind(')');  // of the command's name
        if (end == std::string::npos) continue;
        std::istringstream rest(text.substr(end + 1));
        std::string state;
        long its_parent = 0;
        if (rest >> state >> its_parent && its_parent == parent && state != "Z")
            out.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return out;
}

void pass_on(int signal, pid_t mpirun) {
    const std::vector<pid_t> processes = children_of(mpirun);
    for (const pid_t p : processes)
        ::kill(p, signal);
    if (processes.empty()) ::kill(mpirun, signal);  // they are not there yet
}

}  // namespace

int run_together(const fs::path& program, const std::vector<std::string>& arguments,
                 int processes) {
    if (!dist::has_transport())
        throw Error(
            "this build of Pippin has no MPI, so that training runs in one process; install "
            "OpenMPI (Debian: libopenmpi-dev openmpi-bin) and build again with -D PIPPIN_MPI=ON, "
            "or say --num_processes 1");
    std::vector<std::string> line = command_line(find_mpirun(), program, arguments, processes);

    if (!::isatty(STDOUT_FILENO)) set_environment("PIPPIN_PLAIN_OUTPUT", "1");
    sigset_t watched, before;
    sigemptyset(&watched);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD})
        sigaddset(&watched, s);
    sigprocmask(SIG_BLOCK, &watched, &before);
    const pid_t child = ::fork();
    if (child < 0) throw Error(fmt::format("fork: {}", std::strerror(errno)));
    if (child == 0) {
        ::setpgid(0, 0);  // a terminal's Ctrl-C comes to us alone
#ifdef __linux__
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
        sigprocmask(SIG_SETMASK, &before, nullptr);
        std::vector<char*> argv;
        for (std::string& a : line)
            argv.push_back(a.data());
        argv.push_back(nullptr);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    int asked = 0;  // how often we were asked to end
    for (;;) {
        int signal = 0;
        sigwait(&watched, &signal);
        if (signal == SIGCHLD) {
            int status = 0;
            if (::waitpid(child, &status, WNOHANG) != child) continue;
            sigprocmask(SIG_SETMASK, &before, nullptr);
            if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
            return WEXITSTATUS(status);
        }
        const bool end = signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
        if (end && ++asked > 1)
            ::kill(child, asked > 2 ? SIGKILL : SIGTERM);  // mpirun ends all of them at once
        else
            pass_on(signal, child);
    }
}

}  // namespace pippin::cli
