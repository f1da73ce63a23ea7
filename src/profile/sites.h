// Where in the user's program the ops of a launch come from: the module that made them, and the
// line that called the model. Kept beside the graph, and only while somebody records.
#pragma once

#include <string>
#include <vector>

#include "profile/recorder.h"

namespace pippin::recording {

/// A text that is never freed; null: unknown.
using Site = const std::string*;
Site site(const std::string& text);

/// What this thread makes comes from there, as long as this lives.
class MadeAt {
  public:
    explicit MadeAt(Site s);
    ~MadeAt();
    MadeAt(const MadeAt&) = delete;
    MadeAt& operator=(const MadeAt&) = delete;

  private:
    Site before_;
};

/// Several in one, the first few of them: "bn1, relu at train.cpp:40". Nulls are left out.
Site joined(const std::vector<Site>& sites);

/// Remembers the current site of a node, by its address. Addresses are used again, so every new
/// node is marked.
void mark_node(const void* node);
Site site_of_node(const void* node);
/// Of a launch that is being made; the plan's description takes it away.
void mark_launch(const void* launch, Site s);
Site take_site_of_launch(const void* launch);
/// Forgets all.
void clear_sites();

}  // namespace pippin::recording
