// MNIST and CIFAR-10 files, good ones and damaged ones.
#include "pippin/datasets.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "common/expect_error.h"
#include "common/temp_folder.h"

namespace pippin::data {
namespace {

using test::TempFolder;
using test::write_text;
using transforms::Normalize;
using transforms::RandomHorizontalFlip;
using transforms::Resize;
using transforms::ToTensor;

std::string number(std::uint32_t v) {
    return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
            static_cast<char>(v)};
}

// `n` images of 2x3; pixel p of image i is 10 i + p.
std::string idx_images(std::uint32_t n) {
    std::string out = number(0x803) + number(n) + number(2) + number(3);
    for (std::uint32_t i = 0; i < n; ++i)
        for (std::uint32_t p = 0; p < 6; ++p)
            out += static_cast<char>(10 * i + p);
    return out;
}

std::string idx_labels(const std::string& labels) {
    return number(0x801) + number(static_cast<std::uint32_t>(labels.size())) + labels;
}

std::string gzipped(const std::string& content) {
    const TempFolder folder;
    const gzFile file = gzopen((folder / "z").c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return test::read_text(folder / "z");
}

std::vector<float> floats(const Array& a) {
    return {a.data<float>(), a.data<float>() + a.shape().numel()};
}

Example batch_of(const Dataset& dataset, const std::vector<std::int64_t>& indices,
                 Draws draws = {}) {
    Example batch;
    dataset.load_batch(indices, draws, batch);
    return batch;
}

TEST(Mnist, ReadsPlainAndCompressedFiles) {
    const TempFolder folder;
    write_text(folder / "train-images-idx3-ubyte", idx_images(4));
    write_text(folder / "raw" / "train-labels-idx1-ubyte.gz",
               gzipped(idx_labels(std::string("\3\0\7\11", 4))));
    const MNIST set(folder.path());
    EXPECT_EQ(set.size(), 4);
    EXPECT_EQ(set.label(3), 9);
    EXPECT_EQ(set.classes().size(), 10u);
    const Image image = set.image(2);
    EXPECT_EQ(image.height, 2);
    EXPECT_EQ(image.width, 3);
    EXPECT_EQ(image.channels, 1);
    EXPECT_EQ(image.at(1, 2, 0), 25);

    const Example batch = batch_of(set, {2, 0});
    EXPECT_EQ(batch.data.shape(), (Shape{2, 1, 2, 3}));
    EXPECT_EQ(batch.data.dtype(), float32);
    EXPECT_EQ(batch.target.shape(), (Shape{2}));
    EXPECT_EQ(batch.target.data<std::int64_t>()[0], 7);
    EXPECT_EQ(floats(batch.data)[5], 25 / 255.0f);
    EXPECT_EQ(floats(batch.data)[6 + 1], 1 / 255.0f);
}

TEST(Mnist, FastPathIsTheSlowOnesResult) {
    const TempFolder folder;
    write_text(folder / "i", idx_images(5));
    write_text(folder / "l", idx_labels(std::string(5, '\1')));
    const Compose normalize({ToTensor(), Normalize({0.25}, {0.5})});
    const Compose same({RandomHorizontalFlip(0), ToTensor(), Normalize({0.25}, {0.5})});
    const auto fast = MNIST::from_files(folder / "i", folder / "l", normalize);
    const auto slow = MNIST::from_files(folder / "i", folder / "l", same);
    const Example a = batch_of(fast, {4, 1, 3}), b = batch_of(slow, {4, 1, 3});
    EXPECT_EQ(floats(a.data), floats(b.data));
    EXPECT_EQ(floats(a.data)[1], (41 / 255.0f - 0.25f) / 0.5f);
    const Example one = slow.get(1);
    EXPECT_EQ(one.data.shape(), (Shape{1, 2, 3}));
    EXPECT_EQ(floats(one.data)[0], floats(a.data)[6]);
}

TEST(Mnist, DamagedFiles) {
    const TempFolder folder;
    const auto images = folder / "i", labels = folder / "l";
    const std::string good = idx_images(4), good_labels = idx_labels(std::string(4, '\2'));
    write_text(labels, good_labels);
    const auto bad_images = [&](const std::string& content,
                                std::initializer_list<std::string> parts) {
        write_text(images, content);
        EXPECT_TRUE((test::throws<FileError>([&] { MNIST::from_files(images, labels); }, parts)));
    };
    bad_images("", {images.string(), "truncated", "magic number"});
    bad_images(good.substr(0, 10), {"truncated", "height"});
    bad_images(good_labels, {"no IDX file of images", "0x00000801", "0x00000803"});
    bad_images(good.substr(0, good.size() - 1), {"truncated", "24 bytes", "23"});
    bad_images(good + "x", {"more than the 24 bytes"});
    bad_images(number(0x803) + number(4) + number(0) + number(3), {"3 pixels", "allowed"});
    bad_images(number(0x803) + number(4) + number(5000) + number(3), {"5000x3"});
    // A count that lies costs no memory.
    bad_images(number(0x803) + number(0xffffffff) + number(4096) + number(4096) + "abc",
               {"truncated", "there are 3"});
    bad_images(idx_images(3), {labels.string(), "4 labels", images.string(), "3 images"});

    const std::string packed = gzipped(good);
    for (std::size_t n = 11; n < packed.size(); ++n)
        bad_images(packed.substr(0, n), {images.string(), "truncated"});
    std::string flipped = packed;
    flipped[flipped.size() - 6] =
        static_cast<char>(flipped[flipped.size() - 6] + 1);  // its checksum
    bad_images(flipped, {"damaged gzip", "data"});

    write_text(images, good);
    write_text(labels, idx_labels(std::string("\1\2\12\3", 4)));
    EXPECT_ERROR(MNIST::from_files(images, labels), FileError, labels.string(), "label 10",
                 "sample 2");
    write_text(labels, good);
    EXPECT_ERROR(MNIST::from_files(images, labels), FileError, "no IDX file of labels");
    EXPECT_ERROR(MNIST::from_files(folder / "none", labels), FileError, "none", "No such file");
    EXPECT_ERROR(MNIST::from_files(folder.path(), labels), FileError, "not a regular file");
}

TEST(Mnist, MissingFiles) {
    const TempFolder folder;
    EXPECT_ERROR(MNIST(folder / "none"), FileError, "none", "no such folder",
                 "train-images-idx3-ubyte");
    EXPECT_ERROR(MNIST(folder.path(), false), FileError, folder.path().string(),
                 "t10k-images-idx3-ubyte.gz");
}

TEST(Mnist, DebiansFashionMnist) {
    if (!std::filesystem::exists(MNIST::kFashionFolder)) GTEST_SKIP() << "is not installed";
    const MNIST test_set(MNIST::kFashionFolder, false);
    EXPECT_EQ(test_set.size(), 10'000);
    EXPECT_EQ(test_set.image(0).height, 28);
    EXPECT_EQ(test_set.label(0), 9);  // an ankle boot
    std::vector<int> counts(10);
    for (std::int64_t i = 0; i < test_set.size(); ++i)
        ++counts[static_cast<std::size_t>(test_set.label(i))];
    EXPECT_EQ(counts, std::vector<int>(10, 1000));
}

// Records whose red plane is r, green g, blue b, each with a ramp.
std::string cifar_records(int n) {
    std::string out;
    for (int i = 0; i < n; ++i) {
        out += static_cast<char>(i % 10);
        for (int c = 0; c < 3; ++c)
            for (int p = 0; p < 1024; ++p)
                out += static_cast<char>(c * 50 + p % 32 + i);
    }
    return out;
}

TEST(Cifar10, ReadsBatches) {
    const TempFolder folder;
    for (int i = 1; i <= 5; ++i)
        write_text(folder / "cifar-10-batches-bin" / ("data_batch_" + std::to_string(i) + ".bin"),
                   cifar_records(3));
    write_text(folder / "test_batch.bin", cifar_records(12));
    const CIFAR10 train(folder.path());
    EXPECT_EQ(train.size(), 15);
    const CIFAR10 test_set(folder.path(), false);
    EXPECT_EQ(test_set.size(), 12);
    EXPECT_EQ(test_set.label(11), 1);
    EXPECT_EQ(test_set.classes()[3], "cat");
    EXPECT_EQ(test_set.image(2).at(7, 5, 1), 50 + 5 + 2);
    const Example batch = batch_of(test_set, {2});
    EXPECT_EQ(batch.data.shape(), (Shape{1, 3, 32, 32}));
    EXPECT_EQ(floats(batch.data)[1024 + 7 * 32 + 5], 57 / 255.0f);

    // The fast path, which knows planes, and the way over an image with interleaved channels.
    CIFAR10 steps(test_set);
    steps.set_transform({RandomHorizontalFlip(0)});
    EXPECT_EQ(floats(batch_of(steps, {2, 7}).data), floats(batch_of(test_set, {2, 7}).data));
}

TEST(Cifar10, DamagedFiles) {
    const TempFolder folder;
    const auto path = folder / "test_batch.bin";
    write_text(path, cifar_records(2).substr(1));
    EXPECT_ERROR(CIFAR10(folder.path(), false), FileError, path.string(), "6145", "3073");
    write_text(path, "");
    EXPECT_ERROR(CIFAR10(folder.path(), false), FileError, path.string(), "0 bytes");
    std::string records = cifar_records(2);
    records[3073] = 10;
    write_text(path, records);
    EXPECT_ERROR(CIFAR10(folder.path(), false), FileError, "label 10", "record 1");
    EXPECT_ERROR(CIFAR10(folder.path()), FileError, "data_batch_1.bin", "binary version");
    EXPECT_ERROR(CIFAR10(folder / "none"), FileError, "none", "no such folder");
}

TEST(ImageDataset, RandomStepsDependOnTheSampleAlone) {
    const TempFolder folder;
    write_text(folder / "test_batch.bin", cifar_records(12));
    const CIFAR10 set(folder.path(), false,
                      {transforms::RandomResizedCrop(8), RandomHorizontalFlip(), ToTensor()});
    const Draws draws{7, 3};
    const auto alone = floats(batch_of(set, {5}, draws).data);
    const auto among = floats(batch_of(set, {1, 5, 2}, draws).data);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), among.begin() + 3 * 8 * 8));
    EXPECT_EQ(alone, floats(set.get(5, draws).data));
    EXPECT_NE(alone, floats(set.get(5, {7, 4}).data));
    EXPECT_NE(alone, floats(set.get(5, {8, 3}).data));
}

}  // namespace
}  // namespace pippin::data
