// A reader finds the old file or the new one, whatever happens to the writer.
#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"
#include "io/safetensors_writer.h"
#include "pippin/error.h"

namespace pippin {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

std::size_t files_in(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

void save(const std::filesystem::path& path, const std::string& content) {
    io::AtomicFile file(path);
    file.write(content.data(), content.size());
    file.commit();
}

// A file of `n` tensors that all hold the byte n.
void save_version(const std::filesystem::path& path, int n) {
    const std::vector<unsigned char> bytes(50'000, static_cast<unsigned char>(n));
    std::vector<io::TensorInfo> tensors;
    for (int i = 0; i < n; ++i)
        tensors.push_back({"t" + std::to_string(i), "U8", {50'000}, 0, 0});
    io::write_safetensors(path, tensors, {}, [&](std::size_t) { return bytes.data(); });
}

// The n of save_version; fails the test if the file is not whole.
int read_version(const std::filesystem::path& path) {
    const io::MappedFile map(path);
    const io::Header header = io::parse_header(map.bytes(), path);
    const int n = static_cast<int>(header.tensors.size());
    for (const io::TensorInfo& t : header.tensors)
        for (const std::byte b : map.bytes().subspan(t.offset, t.bytes))
            if (b != std::byte(n)) {
                ADD_FAILURE() << "mixed content";
                return -1;
            }
    return n;
}

TEST(AtomicFile, ReplacesAndLeavesNothingElse) {
    const TempFolder folder;
    save(folder / "f", "old");
    save(folder / "f", "the new content");
    EXPECT_EQ(read_text(folder / "f"), "the new content");
    EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, WithoutCommitTheTargetStays) {
    const TempFolder folder;
    save(folder / "f", "old");
    {
        io::AtomicFile file(folder / "f");
        file.write("new", 3);
    }
    EXPECT_EQ(read_text(folder / "f"), "old");
    EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, RelativePathInTheWorkingFolder) {
    const TempFolder folder;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    save("f", "x");
    std::filesystem::current_path(before);
    EXPECT_EQ(read_text(folder / "f"), "x");
}

TEST(AtomicFile, WritesWhereALinkLeads) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "real");
    save(folder / "real" / "f", "old");
    std::filesystem::create_symlink("real/f", folder / "link");
    save(folder / "link", "new");
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
    EXPECT_EQ(read_text(folder / "real" / "f"), "new");
}

TEST(AtomicFile, KeepsThePermissions) {
    const TempFolder folder;
    save(folder / "f", "old");
    ::chmod((folder / "f").c_str(), 0640);
    save(folder / "f", "new");
    struct stat status {};
    ASSERT_EQ(::stat((folder / "f").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, TakesOverWhatAKilledWriterLeft) {
    const TempFolder folder;
    write_text(folder / ".f.partial", "a very long rest of a writer that was killed");
    save(folder / "f", "new");
    EXPECT_EQ(read_text(folder / "f"), "new");
    EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, RefusesToWriteThroughALinkInThePartialsPlace) {
    const TempFolder folder;
    write_text(folder / "other", "untouched");
    std::filesystem::create_symlink("other", folder / ".f.partial");
    EXPECT_THROW(save(folder / "f", "new"), FileError);
    EXPECT_EQ(read_text(folder / "other"), "untouched");
}

// A full disk, played by a limit on the size of files.
TEST(AtomicFile, AFailedWriteLeavesTheOldFile) {
    const TempFolder folder;
    save(folder / "f", "old");
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{1000, 1000};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        int status = 1;
        try {
            save(folder / "f", std::string(100'000, 'n'));
        } catch (const FileError& e) {
            status = std::string(e.what()).find("File too large") != std::string::npos ? 0 : 2;
        }
        ::_exit(status);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(read_text(folder / "f"), "old");
    EXPECT_EQ(files_in(folder.path()), 1u);
}

// Children that save without end are killed at random moments, also in the middle of a write.
TEST(AtomicFile, AKilledProcessLeavesAWholeFile) {
    const TempFolder folder;
    const auto path = folder / "model.safetensors";
    const auto begin = std::chrono::steady_clock::now();
    for (int n = 15; n > 0; n -= 7)
        save_version(path, n);
    const auto three_saves = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - begin);
    std::mt19937 random(3);
    int versions_seen = 0, partials_seen = 0, last = 1;
    for (int round = 0; round < 40; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            for (int n = 2;; n = n % 30 + 1)
                save_version(path, n);
        }
        std::this_thread::sleep_for(three_saves * (random() % 1000) / 300);
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
        const int version = read_version(path);
        ASSERT_GE(version, 1);
        versions_seen += version != last;
        last = version;
        partials_seen += std::filesystem::exists(folder / ".model.safetensors.partial");
    }
    // The test means something only if saves did happen and some were cut off.
    EXPECT_GT(versions_seen, 5);
    EXPECT_GT(partials_seen, 5);
    save_version(path, 3);
    EXPECT_EQ(read_version(path), 3);
    EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, WritersAndReadersAtOnce) {
    const TempFolder folder;
    const auto path = folder / "f";
    save_version(path, 1);
    std::atomic<bool> done = false;
    std::vector<std::thread> writers;
    for (int w = 0; w < 3; ++w)
        writers.emplace_back([&, w] {
            for (int i = 0; i < 20; ++i)
                save_version(path, 1 + (w * 7 + i) % 10);
        });
    std::thread reader([&] {
        while (!done)
            read_version(path);
    });
    for (std::thread& t : writers)
        t.join();
    done = true;
    reader.join();
    read_version(path);
    EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, LeavesPipesAndLinksToNowhereAlone) {
    TempFolder folder;
    const auto pipe = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_ERROR(io::AtomicFile file(pipe), FileError, "not a regular file");
    EXPECT_TRUE(std::filesystem::is_fifo(pipe));
    const auto loop = folder.path() / "loop";
    std::filesystem::create_symlink("loop", loop);
    EXPECT_ERROR(io::AtomicFile file(loop), FileError, "loop");
    EXPECT_TRUE(std::filesystem::is_symlink(loop));
}

}  // namespace
}  // namespace pippin
