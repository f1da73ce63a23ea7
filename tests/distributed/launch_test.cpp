// pippin launch with several processes: exit codes, signals, settings.
#include <signal.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "distributed/processes.h"
#include "pippin/accelerator.h"
#include "pippin/pippin.h"

namespace pippin {
namespace {

using test::is_one_of_several;
using test::kPippin;
using test::launch_line;
using test::Outcome;
using test::shell;
using test::this_test;
namespace fs = std::filesystem;

class Launch : public test::Processes {
  protected:
    std::string script(const std::string& text) const {
        const fs::path file = folder / "script";
        std::ofstream(file) << "#!/bin/sh\n" << text;
        fs::permissions(file, fs::perms::owner_all);
        return file.string();
    }
    static Outcome pippin(const std::string& arguments) {
        return shell(
            "env -u PIPPIN_DEVICE -u OMP_NUM_THREADS XDG_CONFIG_HOME=/nonexistent "
            "timeout 60 " +
            kPippin.string() + " " + arguments);
    }
    static std::size_t count(const std::string& text, const std::string& word) {
        std::size_t n = 0;
        for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++n)
            at += word.size();
        return n;
    }
    test::TempFolder folder;
};

// A small run that goes on until `stop` says so.
template <class F>
void train(Accelerator& accelerator, F stop) {
    const auto model = nn::make<nn::Linear>(4, 4);
    optim::SGD optimizer(model->parameters(), {.lr = 1e-3});
    accelerator.prepare(*model, optimizer);
    const Tensor x = ones({2, 4});
    for (int step = 0; !stop(step); ++step) {
        accelerator.backward(square((*model)(x)).mean());
        optimizer.step();
        optimizer.zero_grad();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

TEST_F(Launch, StartsThatManyAndSharesOutThreads) {
    const std::string show =
        script("echo \"threads=$OMP_NUM_THREADS of=$# $1\"; echo \"plain=$PIPPIN_PLAIN_OUTPUT\"\n");
    Outcome o = pippin("launch --num_processes 3 " + show + " 'two words'");
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_EQ(count(o.output, "of=1 two words"), 3u) << o.output;
    EXPECT_EQ(count(o.output, "threads= "), 0u) << o.output;
    EXPECT_EQ(count(o.output, "plain=1"), 3u) << o.output;  // ours goes to no terminal
    o = pippin("launch --num_processes 2 --num_cpu_threads_per_process 7 " + show);
    EXPECT_EQ(count(o.output, "threads=7 "), 2u) << o.output;

    std::ofstream(folder / "config.yaml") << "num_processes: 2\n";
    const std::string file = " --config_file " + (folder / "config.yaml").string() + " ";
    EXPECT_EQ(count(pippin("launch" + file + show).output, "of="), 2u);
    EXPECT_EQ(count(pippin("launch --num_processes 1" + file + show).output, "of="), 1u);
}

TEST_F(Launch, GivesTheFailingCode) {
    EXPECT_EQ(pippin("launch --num_processes 2 " + script("exit 7\n")).code, 7);
    // The other one would sleep on.
    const auto started = std::chrono::steady_clock::now();
    const Outcome o = pippin("launch --num_processes 2 " +
                             script("[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 9\nsleep 50\n"));
    EXPECT_EQ(o.code, 9) << o.output;
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(30));
}

TEST_F(Launch, AFailingProcessEndsAllInTheMiddleOfTraining) {
    if (is_one_of_several()) {
        Accelerator accelerator({.quiet = true});
        const int rank = accelerator.process_index();
        train(accelerator, [&](int step) {
            // Process 1 is steps ahead of process 0 then: some have not even begun to be averaged.
            if (rank == 0 && step == 3) std::this_thread::sleep_for(std::chrono::seconds(1));
            if (rank == 1 && step == 5) std::exit(11);
            return false;
        });
        return;
    }
    const Outcome o = shell("timeout 60 " + launch_line(2, this_test()));
    EXPECT_EQ(o.code, 11) << o.output;
}

TEST_F(Launch, AnErrorInOneProcessEndsAll) {
    if (is_one_of_several()) {
        Accelerator accelerator({.quiet = true});
        const auto model = nn::make<nn::Linear>(4, 3);
        optim::SGD optimizer(model->parameters(), {.lr = 1e-3});
        accelerator.prepare(*model, optimizer);
        const int rank = accelerator.process_index();
        try {
            for (int step = 0;; ++step) {
                // In process 0 a label is out of range, once.
                const std::int64_t label = rank == 0 && step == 3 ? 99 : 1;
                const Tensor target = tensor(std::vector<std::int64_t>{label, 0}, {2});
                const Tensor loss = cross_entropy((*model)(ones({2, 4})), target);
                accelerator.backward(loss);
                optimizer.step();
                optimizer.zero_grad();
                (void)loss.item<float>();
                (void)model->weight.sum().item<float>();
            }
        } catch (const Error& e) {
            std::fprintf(stderr, "process %d: %s\n", rank, e.what());
            std::exit(13);
        }
    }
    const Outcome o = shell("timeout 60 " + launch_line(2, this_test()));
    EXPECT_EQ(o.code, 13) << o.output;
    EXPECT_TRUE(o.has("process 0: ")) << o.output;
    EXPECT_TRUE(o.has("out of range")) << o.output;
}

TEST_F(Launch, AKilledProcessEndsAll) {
    if (is_one_of_several()) {
        Accelerator accelerator({.quiet = true});
        const int rank = accelerator.process_index();
        train(accelerator, [&](int step) {
            if (rank == 0 && step == 5) std::raise(SIGKILL);
            return false;
        });
        return;
    }
    const Outcome o = shell("timeout 60 " + launch_line(2, this_test()));
    EXPECT_EQ(o.code, 128 + SIGKILL) << o.output;
}

TEST_F(Launch, SignalsLetAllFinishTheirStepAndSave) {
    if (is_one_of_several()) {
        const fs::path at = std::getenv("PIPPIN_TEST_FOLDER");
        Accelerator accelerator({.quiet = true});
        train(accelerator, [&](int step) {
            if (step == 3 && accelerator.is_main_process()) std::ofstream(at / "ready") << "now";
            if (!accelerator.stop_requested()) return false;
            // mpirun kills a second after it was asked to end a run; a step may take longer.
            std::this_thread::sleep_for(std::chrono::milliseconds(1500));
            accelerator.save_state(at / "state");
            accelerator.print("saved");
            std::exit(accelerator.exit_code());
        });
    }
    const std::string at = folder.path().string();
    for (const char* signal : {"TERM", "INT"}) {
        fs::remove(folder / "ready");
        fs::remove_all(folder / "state");
        const Outcome o = shell("timeout 100 sh -c 'trap \"\" HUP; " +
                                launch_line(2, this_test(), "PIPPIN_TEST_FOLDER=" + at) +
                                " & p=$!; while [ ! -e " + at +
                                "/ready ]; do sleep 0.05; done; kill -" + signal + " $p; wait $p'");
        const bool term = std::string(signal) == "TERM";
        // A shell's background jobs ignore SIGINT, and what is ignored stays so.
        if (!term && o.code == 124) continue;
        EXPECT_EQ(o.code, 128 + (term ? SIGTERM : SIGINT)) << o.output;
        EXPECT_TRUE(o.has("saved")) << o.output;
        EXPECT_TRUE(fs::exists(folder / "state" / "state.json")) << o.output;
        break;
    }
}

TEST_F(Launch, WorksUnderMpirunItself) {
    if (is_one_of_several()) {
        Accelerator accelerator;
        train(accelerator, [](int step) { return step == 2; });
        accelerator.print("rank 0 of " + std::to_string(accelerator.num_processes()));
        return;
    }
    const Outcome o = shell(
        "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun "
        "--oversubscribe -n 2 " +
        fs::read_symlink("/proc/self/exe").string() + " --gtest_filter=" + this_test());
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_EQ(count(o.output, "rank 0 of 2"), 1u) << o.output;
    EXPECT_EQ(count(o.output, "pippin: training on"), 1u) << o.output;
}

TEST_F(Launch, SaysWhatIsMissing) {
    const Outcome o = shell("PATH=/nonexistent " + kPippin.string() + " launch --num_processes 2 " +
                            script("exit 0\n"));
    EXPECT_EQ(o.code, 1);
    EXPECT_TRUE(o.has("mpirun, which was not found")) << o.output;
    EXPECT_TRUE(o.has("openmpi-bin")) << o.output;
}

TEST_F(Launch, TestTrainsWithSeveralProcesses) {
    const Outcome o = pippin("launch --cpu --num_processes 2 " + kPippin.string() + " test");
    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_EQ(count(o.output, "loader: 2 processes see each sample once, together"), 1u)
        << o.output;
    EXPECT_EQ(count(o.output, "training with 2 processes"), 1u) << o.output;
}

}  // namespace
}  // namespace pippin
