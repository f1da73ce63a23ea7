// The YAML file of `pippin config`; what is read from it can be written and read again.
#include "config_file.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pippin;
    return fuzz::run([&] {
        const cli::Config config = cli::parse_config(std::string(fuzz::text(data, size)), "file");
        for (const bool json : {false, true}) {
            const std::string text = cli::config_text(config, json);
            fuzz::check(cli::config_text(cli::parse_config(text, "again"), json) == text,
                        "a written file reads the same");
        }
    });
}
