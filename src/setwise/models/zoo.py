"""The zoo: the named models, one entry each.

An aggregation is a recipe of parts; other networks have a blueprint of their own. A new model is
one entry here, and the laws in ``tests/test_laws.py`` run over every entry.
"""

from collections.abc import Mapping

from setwise.models import evaluations
from setwise.models.baselines import (
    ContextDependentBlueprint,
    DeepSetsBlueprint,
    FirstAggregateBlueprint,
    PerceptronBlueprint,
    SetTransformerBlueprint,
)
from setwise.models.evaluations import Identity, KinkedLinear, KinkedTanh, Logarithm, Power, Tanh
from setwise.models.item_functions import Hidden
from setwise.models.mixtures import MixtureBlueprint, SoftNestedBlueprint
from setwise.models.model import About, Blueprint
from setwise.models.recipes import (
    Recipe,
    extremes,
    mean_linear,
    midpoint,
    minimum,
    one,
    power_spread,
    quiet_network,
    selves,
    set_network,
    softmax_average,
    spread,
    vector,
    vector_and_network,
    zero,
)
from setwise.models.within_set import WithinSetBlueprint, among_others, fine_splines, splines

PAPER = "Rosenfeld, Oshiba and Singer 2020"

IIA: Mapping[str, Blueprint] = {
    "mnl": Recipe(
        About(
            "IIA", "f(x)", "McFadden 1973", True,
            "The baseline to fit first: exact, with standard errors, and readable.",
        ),
        w=one, r=zero, mu=Identity, dimension=1,
    ),
}  # fmt: skip

SET_DEPENDENT: Mapping[str, Blueprint] = {
    "sdw": Recipe(
        About(
            "set-dependent", "<w(s), F(x)>", PAPER, False,
            "The smallest set-dependent network: context shifts the weights of attributes.",
        ),
        w=set_network, r=zero, mu=Identity,
    ),
    "sde": Recipe(
        About(
            "set-dependent", "<v, mu(F(x) - r(s))>", PAPER, False,
            "When items are judged against a reference that the set provides.",
        ),
        w=vector, r=set_network, mu=KinkedTanh,
    ),
    "sda": Recipe(
        About(
            "set-dependent", "<w(s), mu(F(x) - r(s))> + <b, x>, x in pieces, among the others",
            f"{PAPER}; setwise", False,
            "The default, not the paper's: the full model plus a logit, piecewise linear in "
            "features and in an item's place in its set.",
        ),
        w=vector_and_network, r=quiet_network, mu=KinkedTanh, view=splines, plus_mnl=True,
    ),
    "sda_straight": Recipe(
        About(
            "set-dependent", "<w(s), mu(F(x) - r(s))> + <b, x>, x seen among the others",
            f"{PAPER}; setwise", False,
            "The default without pieces: the second round of its ensemble.",
        ),
        w=vector_and_network, r=quiet_network, mu=KinkedTanh, view=among_others, plus_mnl=True,
    ),
    "sda_fine": Recipe(
        About(
            "set-dependent",
            "<w(s), mu(F(x) - r(s))> + <b, x>, F(x) = relu(x A + a) Theta, x in fine pieces",
            f"{PAPER}; setwise", False,
            "The third round of the default's ensemble: it recognises items and sets that occur "
            "again.",
        ),
        w=vector_and_network, r=quiet_network, mu=KinkedTanh, F=Hidden, view=fine_splines,
        plus_mnl=True,
    ),
    "sda_inner": Recipe(
        About(
            "set-dependent", "<w(s), mu(<F(x), r(s)>)>", PAPER, False,
            "The model of the paper's experiments: it needs thousands of sets.",
        ),
        w=set_network, r=set_network, mu=KinkedTanh, compare=evaluations.inner,
    ),
    "sda_difference": Recipe(
        About(
            "set-dependent", "<w(s), mu(F(x) - r(s))>", f"{PAPER}, Eq. 5", False,
            "The paper's Eq. 5, with a tenth of sda_inner's parameters: often as accurate.",
        ),
        w=set_network, r=set_network, mu=KinkedTanh,
    ),
}  # fmt: skip

ABLATIONS: Mapping[str, Blueprint] = {
    "sda_tanh": Recipe(
        About(
            "set-dependent", "<w(s), tanh(<F(x), r(s)>)>", f"{PAPER}, Table 4", False,
            "Ablation: sda_inner without loss aversion.",
        ),
        w=set_network, r=set_network, mu=Tanh, compare=evaluations.inner,
    ),
    "sda_linear": Recipe(
        About(
            "set-dependent", "<w(s), <F(x), r(s)>>", f"{PAPER}, Table 4", False,
            "Ablation: sda_inner without mu.",
        ),
        w=set_network, r=set_network, mu=Identity, compare=evaluations.inner,
    ),
    "sda_vector": Recipe(
        About(
            "set-dependent", "<v, mu(<F(x), r(s)>)>", f"{PAPER}, Table 4 (SDR in the ICML version)",
            False, "Ablation: sda_inner whose weights do not depend on the set.",
        ),
        w=vector, r=set_network, mu=KinkedTanh, compare=evaluations.inner,
    ),
    "mnl_set": Recipe(
        About(
            "set-dependent", "w(s) f(x)", f"{PAPER}, Table 4", False,
            "Ablation: MNL whose single score is scaled by the set.",
        ),
        w=set_network, r=zero, mu=Identity, dimension=1,
    ),
}  # fmt: skip

CLASSICAL: Mapping[str, Blueprint] = {
    "tversky": Recipe(
        About(
            "non-IIA", "sum_i (max f_i - min f_i)^rho f_i(x)", "Tversky 1969", False,
            "When the attributes in which the items differ most decide.",
        ),
        w=power_spread, r=zero, mu=Identity,
    ),
    "mcfadden": SoftNestedBlueprint(
        About(
            "non-IIA", "log sum_i softmax_i(W_i + lambda_i I_i) exp(f_i(x) - I_i)",
            "McFadden 1978", False,
            "Nested logit with soft nests that are learned; if you know the nests, use nested.",
        ),
    ),
    "krs": Recipe(
        About(
            "non-IIA", "sum_i softmax_i(tau a_i(s)) f_i(x)",
            "Kalai, Rubinstein and Spiegler 2002", False,
            "When a person has several rationales and the set picks one.",
        ),
        w=selves, r=zero, mu=Identity,
    ),
    "orhun": Recipe(
        About(
            "non-IIA", "sum_i omega_i kink(f_i(x) - sum_z pi_z f_i(z))", "Orhun 2009", False,
            "Loss aversion against an average of the set.",
        ),
        w=vector, r=softmax_average, mu=KinkedLinear,
    ),
    "kaneko_nakamura": Recipe(
        About(
            "non-IIA", "sum_i log(f_i(x) - min f_i + epsilon)", "Kaneko and Nakamura 1979", False,
            "Nash's product of gains over the worst of the set.",
        ),
        w=one, r=minimum, mu=Logarithm,
    ),
    "lam": Recipe(
        About(
            "non-IIA", "sum_i kink(f_i(x) - (max f_i + min f_i) / 2)",
            "Kivetz, Netzer and Srinivasan 2004", False,
            "Loss aversion against the middle of the range: the compromise effect.",
        ),
        w=one, r=midpoint, mu=KinkedLinear,
    ),
    "ccm": Recipe(
        About(
            "non-IIA", "sum_i (f_i(x) - min f_i)^rho", "Kivetz, Netzer and Srinivasan 2004", False,
            "Gains over the worst of the set count less and less: the compromise effect.",
        ),
        w=one, r=minimum, mu=Power,
    ),
    "nccm": Recipe(
        About(
            "non-IIA", "sum_i (max - min) ((f_i(x) - min) / (max - min))^rho",
            "Kivetz, Netzer and Srinivasan 2004", False,
            "The contextual concavity model with gains as a share of the range.",
        ),
        w=spread, r=extremes, mu=Power, compare=evaluations.range_position,
    ),
}  # fmt: skip

CONTEXT: Mapping[str, Blueprint] = {
    "mixed_mnl": MixtureBlueprint(
        About(
            "non-IIA", "log sum_k pi_k softmax_s(<theta_k, x>)", "McFadden and Train 2000", False,
            "When people differ in taste and you cannot tell who is who.",
        ),
    ),
    "mnl_within_set": WithinSetBlueprint(
        About(
            "non-IIA", "<b, x> + <b_z, z_s(x)> + <b_p, position_s(x)>", "setwise", False,
            "MNL plus an item's place in its set: exact, and strong on little data.",
        ),
    ),
    "lcl": Recipe(
        About(
            "non-IIA", "<theta + A mean(x), x>", "Tomlinson and Benson 2021", False,
            "The first context model to try: convex, exact, with standard errors for each effect.",
        ),
        w=mean_linear, r=zero, mu=Identity, dimension="features",
    ),
}  # fmt: skip

NETWORKS: Mapping[str, Blueprint] = {
    "mlp": PerceptronBlueprint(
        About(
            "IIA", "MLP(x)", "Rumelhart, Hinton and Williams 1986", True,
            "Non-linear taste without context: what a context model has to beat.",
        ),
    ),
    "ranknet": PerceptronBlueprint(
        About(
            "IIA", "MLP(x)", "Burges et al. 2005", True,
            "The paper's ranker: trained with the pairwise objective; hidden=512 gives its size.",
        ),
        multiples=(2, 1),
    ),
    "deep_sets": DeepSetsBlueprint(
        About(
            "non-IIA", "<v, h(x)>, h <- relu((h - mean h) W)", "Zaheer et al. 2017", False,
            "A general network that compares items with the set's mean; hidden=256 is the paper's.",
        ),
    ),
    "fate": FirstAggregateBlueprint(
        About(
            "non-IIA", "MLP([x, mean phi(z)])", "Pfannschmidt, Gupta and Hüllermeier 2018", False,
            "When each item is judged in the light of the set as a whole.",
        ),
    ),
    "set_transformer": SetTransformerBlueprint(
        About(
            "non-IIA", "<v, h_x>, h <- attention(h)", "Lee et al. 2019", False,
            "When single items affect one another, as decoys do; the cost is quadratic in items.",
        ),
    ),
    "cdm": ContextDependentBlueprint(
        About(
            "non-IIA", "<theta, x> + mean over z != x of <A x, B z>",
            "Seshadri, Peysakhovich and Ugander 2019", False,
            "Effects between pairs of items with few parameters: like lcl, for many features.",
        ),
    ),
}  # fmt: skip

ZOO: Mapping[str, Blueprint] = {
    **IIA, **SET_DEPENDENT, **ABLATIONS, **CLASSICAL, **CONTEXT, **NETWORKS,
}  # fmt: skip
"""Every model that is built from features and sizes, by name."""
