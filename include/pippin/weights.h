// A model's weights from and to files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pippin/io.h"
#include "pippin/nn.h"

namespace pippin {

/// How names of a checkpoint become names of a model, and which differences are allowed.
struct LoadOptions {
    /// Missing and unexpected names raise.
    bool strict = true;
    /// Take only what lies under this name, as io::select() does: {"model": {...}, "epoch": 3}
    /// needs "model".
    std::string key = "";
    /// Taken off the front of the names that have it: "module." as DataParallel leaves it.
    std::string strip_prefix = "";
    /// Names that begin with one of these are left as they are in the model, and may be missing
    /// from or extra in the file: {"fc."} for a new head.
    std::vector<std::string> ignore = {};
    /// A tensor of another shape is left as it is in the model instead of raising: a new head when
    /// its name is not known.
    bool skip_mismatched = false;
};

/// Names, in the model's order (unexpected: in the file's).
struct LoadReport {
    std::vector<std::string> loaded;
    std::vector<std::string> missing;     ///< in the model, not in the file
    std::vector<std::string> unexpected;  ///< in the file, not in the model
    std::vector<std::string> mismatched;  ///< skipped for their shape
    std::vector<std::string> ignored;
    /// "loaded 60 tensors; skipped for their shape: fc.weight, fc.bias"
    std::string str() const;
};

/// Loads into the model what io::load() finds at `path`, converting to the model's dtypes and
/// device. One ValueError lists every missing, unexpected and misshapen name (with a hint where a
/// prefix is in the way), and then nothing was written. A missing "num_batches_tracked" is no
/// fault, as in PyTorch. ValueError also where not one name fits, whatever the options.
LoadReport load_weights(nn::Module& model, const std::filesystem::path& path,
                        const LoadOptions& options = {});
/// The same from tensors; `source` begins the error's message.
LoadReport load_weights(nn::Module& model, const io::NamedTensors& tensors,
                        const LoadOptions& options = {}, const std::string& source = "");

/// Writes model.state_dict() to a safetensors file that PyTorch's safetensors.torch.load_file()
/// reads.
void save_weights(const nn::Module& model, const std::filesystem::path& path);

}  // namespace pippin
