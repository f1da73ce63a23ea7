// JPEG and PNG files, as folders of images have them.
#include "pippin/image.h"
#include "data/image_codecs.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    return fuzz::run([&] {
        const data::Image image = data::decode_image(fuzz::bytes(data, size), "file");
        fuzz::check(image.pixels.size() == static_cast<std::size_t>(image.height * image.width) * 3,
                    "an image has all its pixels");
    });
}
