// CIFAR-10's records.
#include "fuzz.h"
#include "pippin/datasets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    static const fuzz::Folder folder;
    return fuzz::run([&] {
        folder.write("test_batch.bin", fuzz::text(data, size));
        const data::CIFAR10 cifar(folder.path(), false);
        fuzz::check(cifar.size() == static_cast<std::int64_t>(size / 3073), "a record is an image");
        for (std::int64_t i = 0; i < cifar.size(); ++i)
            fuzz::check(cifar.label(i) >= 0 && cifar.label(i) < 10, "labels are 0 to 9");
    });
}
