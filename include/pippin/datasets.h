// Image datasets: MNIST files, CIFAR-10 binaries, folders of JPEG and PNG files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pippin/dataset.h"
#include "pippin/transforms.h"

namespace pippin::data {

using transforms::Compose;

/// Images with labels. data is float32 (C, H, W) after the transform, target the int64 label.
class ImageDataset : public Dataset {
  public:
    /// The image as stored, before the transform. Called by several threads at once.
    virtual Image image(std::int64_t index) const = 0;
    virtual std::int64_t label(std::int64_t index) const = 0;

    Example load(std::int64_t index, Draws draws) const override;
    void load_batch(std::span<const std::int64_t> indices, Draws draws,
                    Example& batch) const override;

    /// Names of the labels 0, 1, ...
    const std::vector<std::string>& classes() const { return classes_; }
    const Compose& transform() const { return transform_; }
    /// Not while a loader runs over this dataset; copies have transforms of their own.
    void set_transform(Compose transform) { transform_ = std::move(transform); }

  protected:
    ImageDataset(std::vector<std::string> classes, Compose transform)
        : classes_(std::move(classes)), transform_(std::move(transform)) {}
    std::vector<std::string> classes_;

  private:
    Compose transform_;
};

/// Images of one size, kept in memory as bytes. Copies share them.
class MemoryImages : public ImageDataset {
  public:
    std::int64_t size() const override { return static_cast<std::int64_t>(store_->labels.size()); }
    Image image(std::int64_t index) const override;
    std::int64_t label(std::int64_t index) const override;
    void load_batch(std::span<const std::int64_t> indices, Draws draws,
                    Example& batch) const override;

  protected:
    struct Store {
        std::int64_t channels = 0, height = 0, width = 0;
        std::vector<std::uint8_t> pixels;  ///< (N, C, H, W)
        std::vector<std::uint8_t> labels;
    };
    MemoryImages(Store store, std::vector<std::string> classes, Compose transform)
        : ImageDataset(std::move(classes), std::move(transform)),
          store_(std::make_shared<const Store>(std::move(store))) {}

  private:
    std::shared_ptr<const Store> store_;
};

/// MNIST, Fashion-MNIST and others in IDX files: gray images, labels 0 to 9.
class MNIST : public MemoryImages {
  public:
    /// Where Debian's package dataset-fashion-mnist puts its files.
    static constexpr const char* kFashionFolder = "/usr/share/datasets/fashion-mnist";

    /// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (or t10k-...) in `root` or in its
    /// folder raw/, plain or with .gz. FileError when they are missing, truncated or malformed, or
    /// do not belong together.
    explicit MNIST(const std::filesystem::path& root, bool train = true, Compose transform = {});
    static MNIST from_files(const std::filesystem::path& images,
                            const std::filesystem::path& labels, Compose transform = {}) {
        return MNIST(std::pair(images, labels), std::move(transform));
    }

  private:
    MNIST(const std::pair<std::filesystem::path, std::filesystem::path>& files, Compose transform);
};

/// CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin, or test_batch.bin, in `root` or
/// in its folder cifar-10-batches-bin/. RGB, 32x32.
class CIFAR10 : public MemoryImages {
  public:
    explicit CIFAR10(const std::filesystem::path& root, bool train = true, Compose transform = {});
};

/// How an ImageFolder's files say their labels.
enum class Labels {
    Folders,   ///< root/<label>/**/<any name>
    FileNames  ///< root/<label>_<digits>.jpg, as the Oxford pets have it
};

/// A folder of .jpg, .jpeg and .png files, always read as RGB. Classes are the sorted labels.
/// Hidden files and other kinds are passed over. A damaged file raises FileError when it is loaded.
class ImageFolder : public ImageDataset {
  public:
    /// FileError when the folder is missing or has no images, when a class has none, or when a
    /// file's name has no label.
    explicit ImageFolder(const std::filesystem::path& root, Compose transform = {},
                         Labels labels = Labels::Folders);
    std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
    Image image(std::int64_t index) const override;
    std::int64_t label(std::int64_t index) const override;
    const std::filesystem::path& path(std::int64_t index) const;

  private:
    struct File {
        std::filesystem::path path;
        std::int64_t label;
    };
    std::vector<File> files_;  ///< by label, then by name
};

}  // namespace pippin::data
