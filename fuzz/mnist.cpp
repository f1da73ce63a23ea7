// IDX files, plain and packed: the first byte says whether the rest are images or labels.
#include "fuzz.h"
#include "pippin/datasets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    using namespace std::string_literals;
    static const fuzz::Folder folder;
    if (size == 0) return 0;
    return fuzz::run([&] {
        const std::string_view rest = fuzz::text(data + 1, size - 1);
        const bool images = data[0] % 2 == 0;
        const auto first =
            folder.write("images", images ? rest : "\0\0\x8\3\0\0\0\1\0\0\0\1\0\0\0\1x"s);
        const auto second = folder.write("labels", images ? "\0\0\x8\1\0\0\0\1\3"s : rest);
        const data::MNIST mnist = data::MNIST::from_files(first, second);
        for (std::int64_t i = 0; i < mnist.size(); ++i) {
            const data::Example e = mnist.get(i);
            fuzz::check(*e.target.data<std::int64_t>() >= 0 && *e.target.data<std::int64_t>() < 10,
                        "labels are 0 to 9");
        }
    });
}
