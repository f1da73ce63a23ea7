// Activations and losses.
#include "pippin/losses.h"
#include "pippin/nn_activations.h"
#include "torch/dispatch.h"

namespace pippin::test {

void add_activations(Table& t) {
    const auto plain = [&](const char* name, Tensor (*f)(const Tensor&, Site)) {
        t[name] = one([f](const Call& c) { return f(c.tensor(0), Site::current()); });
    };
    plain("selu", selu);
    plain("mish", mish);
    plain("hardswish", hardswish);
    plain("hardsigmoid", hardsigmoid);
    plain("relu6", relu6);
    plain("softsign", softsign);
    plain("logsigmoid", logsigmoid);
    plain("tanhshrink", tanhshrink);
    t["elu"] = one([](const Call& c) { return elu(c.tensor(0), c.real("alpha", 1)); });
    t["celu"] = one([](const Call& c) { return celu(c.tensor(0), c.real("alpha", 1)); });
    t["hardtanh"] = one([](const Call& c) {
        return hardtanh(c.tensor(0), c.real("min_val", -1), c.real("max_val", 1));
    });
    t["prelu"] = one([](const Call& c) { return prelu(c.tensor(0), c.tensor(1)); });
    t["softplus"] = one([](const Call& c) {
        return softplus(c.tensor(0), c.real("beta", 1), c.real("threshold", 20));
    });
    t["softshrink"] =
        one([](const Call& c) { return softshrink(c.tensor(0), c.real("lambd", 0.5)); });
    t["hardshrink"] =
        one([](const Call& c) { return hardshrink(c.tensor(0), c.real("lambd", 0.5)); });
    t["threshold"] = one([](const Call& c) {
        return threshold(c.tensor(0), c.real("threshold", 0), c.real("value", 0));
    });
    t["glu"] = one([](const Call& c) { return glu(c.tensor(0), c.integer("dim", -1)); });
    t["softmin"] = one([](const Call& c) { return softmin(c.tensor(0), c.integer("dim", 0)); });
}

void add_losses(Table& t) {
    // A third tensor is the classes' weight.
    t["cross_entropy"] = one([](const Call& c) {
        const auto ignored = c.integer("ignore_index", -100);
        const double smoothing = c.real("label_smoothing", 0);
        if (c.tensors.size() < 3)
            return cross_entropy(c.tensor(0), c.tensor(1), loss_reduction(c), ignored, smoothing);
        return cross_entropy(c.tensor(0), c.tensor(1), c.optional_tensor(2), loss_reduction(c),
                             ignored, smoothing);
    });
    t["nll_loss"] = one([](const Call& c) {
        const auto ignored = c.integer("ignore_index", -100);
        if (c.tensors.size() < 3)
            return nll_loss(c.tensor(0), c.tensor(1), loss_reduction(c), ignored);
        return nll_loss(c.tensor(0), c.tensor(1), c.optional_tensor(2), loss_reduction(c), ignored);
    });
    const auto plain = [&](const char* name,
                           Tensor (*f)(const Tensor&, const Tensor&, Reduction, Site)) {
        t[name] = one([f](const Call& c) {
            return f(c.tensor(0), c.tensor(1), loss_reduction(c), Site::current());
        });
    };
    plain("mse_loss", mse_loss);
    plain("l1_loss", l1_loss);
    plain("soft_margin_loss", soft_margin_loss);
    t["binary_cross_entropy"] = one([](const Call& c) {
        return binary_cross_entropy(c.tensor(0), c.tensor(1), c.optional_tensor(2),
                                    loss_reduction(c));
    });
    t["binary_cross_entropy_with_logits"] = one([](const Call& c) {
        return binary_cross_entropy_with_logits(c.tensor(0), c.tensor(1), c.optional_tensor(2),
                                                loss_reduction(c), c.optional_tensor(3));
    });
    t["smooth_l1_loss"] = one([](const Call& c) {
        return smooth_l1_loss(c.tensor(0), c.tensor(1), loss_reduction(c), c.real("beta", 1));
    });
    t["huber_loss"] = one([](const Call& c) {
        return huber_loss(c.tensor(0), c.tensor(1), loss_reduction(c), c.real("delta", 1));
    });
    t["kl_div"] = one([](const Call& c) {
        const bool batch = c.has("reduction") && c.args["reduction"] == "batchmean";
        const Reduction r = batch ? Reduction::Mean : loss_reduction(c);
        const KlReduction kl = batch                  ? KlReduction::BatchMean
                               : r == Reduction::None ? KlReduction::None
                               : r == Reduction::Sum  ? KlReduction::Sum
                                                      : KlReduction::Mean;
        return kl_div(c.tensor(0), c.tensor(1), kl, c.flag("log_target", false));
    });
    t["hinge_embedding_loss"] = one([](const Call& c) {
        return hinge_embedding_loss(c.tensor(0), c.tensor(1), c.real("margin", 1),
                                    loss_reduction(c));
    });
    t["margin_ranking_loss"] = one([](const Call& c) {
        return margin_ranking_loss(c.tensor(0), c.tensor(1), c.tensor(2), c.real("margin", 0),
                                   loss_reduction(c));
    });
    t["cosine_embedding_loss"] = one([](const Call& c) {
        return cosine_embedding_loss(c.tensor(0), c.tensor(1), c.tensor(2), c.real("margin", 0),
                                     loss_reduction(c));
    });
    t["triplet_margin_loss"] = one([](const Call& c) {
        return triplet_margin_loss(c.tensor(0), c.tensor(1), c.tensor(2), c.real("margin", 1),
                                   c.real("p", 2), c.real("eps", 1e-6), c.flag("swap", false),
                                   loss_reduction(c));
    });
    t["poisson_nll_loss"] = one([](const Call& c) {
        return poisson_nll_loss(c.tensor(0), c.tensor(1), c.flag("log_input", true),
                                c.real("eps", 1e-8), loss_reduction(c));
    });
    t["normalize"] = one([](const Call& c) {
        return normalize(c.tensor(0), c.real("p", 2), c.integer("dim", 1), c.real("eps", 1e-12));
    });
    t["cosine_similarity"] = one([](const Call& c) {
        return cosine_similarity(c.tensor(0), c.tensor(1), c.integer("dim", 1),
                                 c.real("eps", 1e-8));
    });
    t["pairwise_distance"] = one([](const Call& c) {
        return pairwise_distance(c.tensor(0), c.tensor(1), c.real("p", 2), c.real("eps", 1e-6),
                                 c.flag("keepdim", false));
    });
}

}  // namespace pippin::test
