// Folders of images, by both kinds of labels.
#include <gtest/gtest.h>

#include <filesystem>

#include "common/expect_error.h"
#include "common/temp_folder.h"
#include "pippin/datasets.h"

namespace pippin::data {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;
using test::write_text;
using transforms::CenterCrop;
using transforms::Resize;

const fs::path kFixtures = PIPPIN_FIXTURES "/data";

void put(const fs::path& to, const char* fixture = "rgb.jpg") {
    fs::create_directories(to.parent_path());
    fs::copy_file(kFixtures / fixture, to);
}

TEST(ImageFolder, AFolderForEachClass) {
    const TempFolder folder;
    put(folder / "dog" / "b.JPEG");
    put(folder / "dog" / "a.png", "rgb.png");
    put(folder / "cat" / "deep" / "er" / "x.jpg", "gray.jpg");
    put(folder / "cat" / "y.jpg");
    write_text(folder / "cat" / "notes.txt", "no image");
    write_text(folder / "cat" / ".hidden.jpg", "no image");
    write_text(folder / "at the top.jpg", "no class");
    fs::create_directories(folder / ".git");
    const ImageFolder set(folder.path(), {Resize(8, 9)});
    EXPECT_EQ(set.classes(), (std::vector<std::string>{"cat", "dog"}));
    ASSERT_EQ(set.size(), 4);
    EXPECT_EQ(set.path(0), folder / "cat" / "deep" / "er" / "x.jpg");
    EXPECT_EQ(set.path(1), folder / "cat" / "y.jpg");
    EXPECT_EQ(set.path(2), folder / "dog" / "a.png");
    EXPECT_EQ(set.path(3), folder / "dog" / "b.JPEG");
    EXPECT_EQ(set.label(1), 0);
    EXPECT_EQ(set.label(2), 1);

    Example batch;
    const std::vector<std::int64_t> all = {0, 1, 2, 3};
    set.load_batch(all, {}, batch);
    EXPECT_EQ(batch.data.shape(), (Shape{4, 3, 8, 9}));
    const std::int64_t* labels = batch.target.data<std::int64_t>();
    EXPECT_EQ(std::vector<std::int64_t>(labels, labels + 4),
              (std::vector<std::int64_t>{0, 0, 1, 1}));
    // The gray one has three equal channels.
    const float* x = batch.data.data<float>();
    EXPECT_TRUE(std::equal(x, x + 72, x + 72));
}

TEST(ImageFolder, LabelsInFileNames) {
    const TempFolder folder;
    put(folder / "great_dane_17.jpg");
    put(folder / "Abyssinian_1.jpg");
    put(folder / "Abyssinian_100.png", "rgb.png");
    put(folder / "beagle_2.jpeg");
    write_text(folder / "list.txt", "");
    put(folder / "sub" / "cat_1.jpg");  // folders inside are passed over
    const ImageFolder set(folder.path(), {}, Labels::FileNames);
    EXPECT_EQ(set.classes(), (std::vector<std::string>{"Abyssinian", "beagle", "great_dane"}));
    EXPECT_EQ(set.size(), 4);
    EXPECT_EQ(set.label(3), 2);

    for (const char* name : {"cat.jpg", "cat_.jpg", "cat_1x.jpg", "_1.jpg", "12.jpg"}) {
        put(folder / name);
        EXPECT_ERROR(ImageFolder(folder.path(), {}, Labels::FileNames), FileError, name,
                     "<label>_<digits>.jpg");
        fs::remove(folder / name);
    }
}

TEST(ImageFolder, NothingThere) {
    const TempFolder folder;
    EXPECT_ERROR(ImageFolder(folder / "none"), FileError, "none", "no such folder");
    EXPECT_ERROR(ImageFolder(folder.path()), FileError, "no folders", "one for each class");
    EXPECT_ERROR(ImageFolder(folder.path(), {}, Labels::FileNames), FileError, "no images",
                 "<label>_<digits>.jpg");
    fs::create_directory(folder / "cat");
    EXPECT_ERROR(ImageFolder(folder.path()), FileError, "cat", "no .jpg");
    write_text(folder / "file", "");
    EXPECT_ERROR(ImageFolder(folder / "file"), FileError, "is not a folder");
    fs::create_directory_symlink("..", folder / "cat" / "loop");
    EXPECT_ERROR(ImageFolder(folder.path()), FileError, "loop");
}

TEST(ImageFolder, ADamagedFileIsNamedWhenItIsLoaded) {
    const TempFolder folder;
    put(folder / "a_1.jpg");
    const std::string good = test::read_text(kFixtures / "rgb.jpg");
    write_text(folder / "a_2.jpg", good.substr(0, good.size() / 2));
    const ImageFolder set(folder.path(), {}, Labels::FileNames);
    EXPECT_EQ(set.size(), 2);
    set.get(0);
    EXPECT_ERROR(set.get(1), FileError, (folder / "a_2.jpg").string(), "JPEG", "Premature end");
}

TEST(ImageFolder, SizesMustAgreeWithinABatch) {
    const TempFolder folder;
    put(folder / "a_1.jpg");
    Image other(10, 20, 3);
    write_jpeg(folder / "a_2.jpg", other);
    ImageFolder set(folder.path(), {}, Labels::FileNames);
    Example batch;
    const std::vector<std::int64_t> both = {0, 1};
    EXPECT_ERROR(set.load_batch(both, {}, batch), ValueError, "sample 1", "10x20", "47x61",
                 "Resize(height, width)", "Compose(ToTensor())");
    set.set_transform({CenterCrop(12)});
    set.load_batch(both, {}, batch);
    EXPECT_EQ(batch.data.shape(), (Shape{2, 3, 12, 12}));
}

}  // namespace
}  // namespace pippin::data
