// The smallest data that examples learn from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "pippin/bert.h"
#include "pippin/data.h"
#include "pippin/io.h"
#include "pippin/random.h"

namespace pippin::test {

namespace fs = std::filesystem;

// Images whose class is where their bright square is: a network learns that at once.
inline std::uint8_t pixel(int label, int y, int x) {
    return static_cast<std::uint8_t>(
        y / 7 == label / 4 && x / 7 == label % 4 ? 250 : (y * 7 + x * 13) % 40);
}

inline void write_idx(const fs::path& images, const fs::path& labels, int n) {
    std::ofstream pixels(images, std::ios::binary), names(labels, std::ios::binary);
    const auto number = [](std::ofstream& out, int v) {
        for (const int shift : {24, 16, 8, 0})
            out.put(static_cast<char>(v >> shift & 255));
    };
    for (const int v : {0x803, n, 28, 28})
        number(pixels, v);
    for (const int v : {0x801, n})
        number(names, v);
    for (int i = 0; i < n; ++i) {
        names.put(static_cast<char>(i % 10));
        for (int y = 0; y < 28; ++y)
            for (int x = 0; x < 28; ++x)
                pixels.put(static_cast<char>(pixel(i % 10, y, x)));
    }
}

// Two classes of real JPEG files: reddish and bluish ones.
inline void write_jpegs(const fs::path& at, int per_class) {
    fs::create_directories(at);
    for (int i = 0; i < 2 * per_class; ++i) {
        data::Image image(40, 36, 3);
        for (std::int64_t y = 0; y < 40; ++y)
            for (std::int64_t x = 0; x < 36; ++x)
                for (std::int64_t c = 0; c < 3; ++c)
                    image.at(y, x, c) = static_cast<std::uint8_t>(
                        (c == (i % 2 ? 0 : 2) ? 180 : 20) + (i * 7 + x + y) % 50);
        data::write_jpeg(
            at / ((i % 2 ? "British_Shorthair_" : "beagle_") + std::to_string(i / 2) + ".jpg"),
            image);
    }
}

inline const std::vector<std::string> kWords{"cat", "purr", "mouse", "dog", "bark", "bone"};

// A BERT of one small layer with a vocabulary of those words.
inline void write_tiny_bert(const fs::path& bert) {
    fs::create_directories(bert);
    std::ofstream vocabulary(bert / "vocab.txt");
    for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
        vocabulary << special << "\n";
    for (const std::string& word : kWords)
        vocabulary << word << "\n";
    vocabulary.close();
    models::BertConfig c;
    c.vocab_size = 11, c.hidden_size = 32, c.layers = 1, c.heads = 2, c.intermediate_size = 64;
    c.max_positions = 64;
    std::ofstream(bert / "config.json")
        << R"({"model_type": "bert", "vocab_size": 11, "hidden_size": 32, "num_hidden_layers": 1,
               "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64,
               "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
               "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1})";
    manual_seed(1);
    io::save_safetensors(bert / "model.safetensors", models::BertModel(c).state_dict());
}

// Two classes that words tell apart, in fortune's format.
inline void write_texts(const fs::path& texts, int per_class) {
    fs::create_directories(texts);
    for (int k = 0; k < 2; ++k) {
        std::ofstream file(texts / (k ? "dogs" : "cats"));
        for (int i = 0; i < per_class; ++i) {
            for (int w = 0; w <= i % 5; ++w)
                file << kWords[static_cast<std::size_t>(3 * k + (i + w) % 3)] << " ";
            file << "\n%\n";
        }
    }
}

}  // namespace pippin::test
