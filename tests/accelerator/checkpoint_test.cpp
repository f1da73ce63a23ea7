// Checkpoints: resuming is as if nothing had happened; damage is found; a killed writer harms
// nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "accelerator/run.h"
#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/io.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;
using test::TestRun;

AcceleratorOptions in(const fs::path& folder, const char* precision = "no", int window = 1) {
    AcceleratorOptions o;
    o.mixed_precision = precision;
    o.gradient_accumulation_steps = window;
    o.project_dir = folder;
    o.automatic_checkpoint_naming = true;
    o.handle_signals = false;
    return o;
}

// Losses of `epochs` epochs from where the loader is; saves before batch number `save_at`.
std::vector<float> losses(TestRun& run, std::int64_t epochs, int save_at = -1) {
    std::vector<float> out;
    int count = 0;
    for (std::int64_t e = run.loader.position().epoch; e < epochs; ++e)
        for (const auto& batch : run.loader) {
            {
                const auto window = run.accelerator.accumulate();
                out.push_back(run.train(batch).item<float>());
            }
            if (++count == save_at) run.accelerator.save_state();
        }
    return out;
}

// K38 and its kind: stopped after any number of batches, in any precision, in the middle of a
// window too.
TEST(Checkpoint, K38ResumedLossesAreBitIdentical) {
    struct Case {
        const char* precision;
        int window;
    };
    for (const Case c : {Case{"no", 1}, Case{"no", 3}, Case{"bf16", 1}, Case{"fp16", 2}}) {
        for (const int stop : {1, 4, 5, 7}) {
            TempFolder folder;
            std::vector<float> whole;
            {
                TestRun run(in(folder.path(), c.precision, c.window));
                whole = losses(run, 3, stop);
            }
            TestRun run(in(folder.path(), c.precision, c.window));
            manual_seed(999);
            run.accelerator.load_state();
            const auto rest = losses(run, 3);
            ASSERT_EQ(rest.size() + static_cast<std::size_t>(stop), whole.size());
            for (std::size_t i = 0; i < rest.size(); ++i)
                EXPECT_EQ(rest[i], whole[i + static_cast<std::size_t>(stop)])
                    << c.precision << ", windows of " << c.window << ", stopped after " << stop
                    << ", batch " << i;
        }
    }
}

TEST(Checkpoint, NamesCountUpAndOldOnesGo) {
    TempFolder folder;
    AcceleratorOptions o = in(folder.path());
    o.total_limit = 2;
    {
        TestRun run(o);
        for (int k = 0; k < 4; ++k)
            EXPECT_EQ(run.accelerator.save_state().filename(), "checkpoint_" + std::to_string(k));
    }
    EXPECT_FALSE(fs::exists(folder.path() / "checkpoints/checkpoint_1"));
    EXPECT_TRUE(fs::exists(folder.path() / "checkpoints/checkpoint_2"));
    TestRun run(o);  // a resumed run overwrites nothing
    EXPECT_EQ(run.accelerator.load_state().filename(), "checkpoint_3");
    EXPECT_EQ(run.accelerator.save_state().filename(), "checkpoint_4");
    EXPECT_ERROR(run.accelerator.save_state(folder.path() / "checkpoints/checkpoint_4"), FileError,
                 "is there already");
}

TEST(Checkpoint, DamageIsFoundAndNothingChanges) {
    TempFolder folder;
    TestRun run(in(folder.path()));
    const fs::path saved = run.accelerator.save_state();
    losses(run, 1);
    const auto before = run.weights();
    const auto position = run.loader.position();
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
        const fs::path file = saved / name;
        std::string bytes;
        {
            std::ifstream f(file, std::ios::binary);
            bytes.assign((std::istreambuf_iterator<char>(f)), {});
        }
        std::string bad = bytes;
        bad[bad.size() - 3] = static_cast<char>(bad[bad.size() - 3] ^ 0x10);
        std::ofstream(file, std::ios::binary) << bad;
        EXPECT_ERROR(run.accelerator.load_state(saved), FileError, "damaged");
        std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
        EXPECT_ERROR(run.accelerator.load_state(saved), FileError, "damaged");
        std::ofstream(file, std::ios::binary) << bytes;
    }
    EXPECT_EQ(run.weights(), before);
    EXPECT_EQ(run.loader.position().epoch, position.epoch);
    fs::remove(saved / "model.safetensors");
    EXPECT_ERROR(run.accelerator.load_state(saved), FileError, "model.safetensors is missing");
    EXPECT_ERROR(run.accelerator.load_state(folder.path() / "nothing"), FileError,
                 "no such folder");
    EXPECT_ERROR(run.accelerator.load_state(folder.path()), FileError, "no checkpoint");
}

TEST(Checkpoint, AnotherModelsStateChangesNothing) {
    TempFolder folder;
    TestRun run(in(folder.path()));
    losses(run, 1);
    const fs::path saved = run.accelerator.save_state();
    manual_seed(3);
    Accelerator other(in(folder.path()));
    const auto model = nn::make<nn::Linear>(6, 5);
    optim::AdamW optimizer(model->parameters());
    optim::StepLR schedule(optimizer, 3);
    data::DataLoader loader(test::samples(), {.batch_size = 8, .seed = 1});
    other.prepare(*model, optimizer, schedule, loader);
    const auto before = model->weight.to_vector<float>();
    EXPECT_ERROR(other.load_state(saved), ValueError, "3.weight");
    EXPECT_EQ(model->weight.to_vector<float>(), before);
    EXPECT_EQ(loader.position().epoch, 0);
    Accelerator none(in(folder.path()));
    EXPECT_ERROR(none.load_state(saved), FileError, "1 models, but 0 were prepared");
}

TEST(Checkpoint, AModelIsSavedInShards) {
    const TempFolder folder;
    TestRun run(in(folder.path()));
    const fs::path to = folder.path() / "model", index = to / "model.safetensors.index.json";
    const auto same = [&] {
        const io::NamedTensors all = io::load(to);
        const auto want = run.model->state_dict();
        ASSERT_EQ(all.size(), want.size());
        for (const auto& [name, tensor] : want) {
            const auto it = std::find_if(all.begin(), all.end(),
                                         [&](const auto& t) { return t.first == name; });
            ASSERT_NE(it, all.end()) << name;
            EXPECT_EQ(it->second.to_vector<float>(), tensor.to_vector<float>()) << name;
        }
    };
    run.accelerator.save_model(*run.model, to, "64 B");
    EXPECT_TRUE(fs::exists(index));
    EXPECT_FALSE(fs::exists(to / "model.safetensors"));
    same();
    run.accelerator.save_model(*run.model, to);
    EXPECT_FALSE(fs::exists(index));
    EXPECT_EQ(std::distance(fs::directory_iterator(to), fs::directory_iterator()), 1);
    same();
    for (const char* bad : {"", "0", "-1MB", "10 apples", "1.5GB", "99999999999GB"})
        EXPECT_ERROR(run.accelerator.save_model(*run.model, to, bad), ValueError, "is no size",
                     "500MB");
    same();
}

TEST(Checkpoint, TextOfOnesOwnTravelsWithIt) {
    TempFolder folder;
    std::string mine = "best 0.91", got;
    Accelerator a(in(folder.path()));
    a.register_for_checkpointing(
        "best", [&] { return mine; }, [&](const std::string& text) { got = text; });
    a.load_state(a.save_state());
    EXPECT_EQ(got, mine);
    EXPECT_ERROR(a.register_for_checkpointing(
                     "best", [] { return ""; }, [](const auto&) {}),
                 ValueError, "registered already");
}

// K37: made on a device that is not here.
TEST(Checkpoint, K37LoadsWhereTheDeviceDoesNotExist) {
    TempFolder folder;
    TestRun run(in(folder.path()));
    losses(run, 1);
    const fs::path saved = run.accelerator.save_state();
    const auto want = run.weights();
    std::string text;
    {
        std::ifstream f(saved / "state.json");
        text.assign((std::istreambuf_iterator<char>(f)), {});
    }
    const auto at = text.find("\"cpu\"");
    ASSERT_NE(at, std::string::npos);
    text.replace(at, 5, "\"gpu:7\"");
    std::ofstream(saved / "state.json") << text;
    TestRun again(in(folder.path()));
    ::testing::internal::CaptureStderr();
    again.accelerator.load_state(saved);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("was made on gpu:7; going on with it on cpu"), std::string::npos) << said;
    EXPECT_EQ(again.weights(), want);
}

// Killed at any moment of a save: what is there under a checkpoint's name is whole.
TEST(Checkpoint, KilledWritersLeaveWholeCheckpoints) {
    TempFolder folder;
    int found = 0;
    for (int round = 0; round < 12; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            // A process of its own: the parent's threads are not here.
            const std::string self = fs::read_symlink("/proc/self/exe").string();
            ::setenv("PIPPIN_SAVE_FOREVER", folder.path().c_str(), 1);
            ::execl(self.c_str(), self.c_str(), "--gtest_filter=Checkpoint.DISABLED_SaveForever",
                    "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
            ::_exit(1);
        }
        ::usleep(static_cast<useconds_t>(120000 + 17000 * round));
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        TestRun run(in(folder.path()));
        if (run.accelerator.latest_checkpoint()) {
            EXPECT_NO_THROW(run.accelerator.load_state());
            ++found;
        }
    }
    EXPECT_GT(found, 0) << "no child came as far as its first checkpoint";
    // The next writer clears away what the killed ones left.
    TestRun run(in(folder.path()));
    run.accelerator.save_state();
    for (const auto& entry : fs::directory_iterator(folder.path() / "checkpoints"))
        EXPECT_EQ(entry.path().filename().string().rfind("checkpoint_", 0), 0u) << entry.path();
}

TEST(Checkpoint, DISABLED_SaveForever) {
    const char* folder = std::getenv("PIPPIN_SAVE_FOREVER");
    ASSERT_TRUE(folder);
    AcceleratorOptions o = in(folder);
    o.total_limit = 3;
    TestRun run(o);
    for (;;)
        run.accelerator.save_state();
}

}  // namespace
}  // namespace pippin
