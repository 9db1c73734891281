// Every diagnostic's code, title and long explanation; `sluice explain SL0203` prints them.
//
//   SL01xx  the file as JSON            SL04xx  the plan: streams, turns, credits
//   SL02xx  names, types, parameters    SL05xx  the command line
//   SL03xx  how nodes are connected     SL06xx  the fields that flow along the edges
#include <algorithm>
#include <array>

#include "engine/base/diagnostic.h"

namespace sluice {
namespace {

// clang-format off
constexpr std::array codes{
  CodeText{"SL0101", "the file cannot be read",
R"(The path does not exist, is a folder, or may not be read. Paths on the command line are relative
to the working directory.)"},
  CodeText{"SL0102", "the file is not JSON",
R"(A graph is JSON with // and /* */ comments. Strings and keys stand in double quotes; there is no
comma behind the last member of an object or list. Nothing behind this place was read.)"},
  CodeText{"SL0103", "a key stands twice in one object",
R"(JSON readers keep one of the two in silence, and not all the same one. Two nodes cannot have one
name: rename one of them.)"},
  CodeText{"SL0104", "nested too deeply",
R"(Objects and lists may stand 64 levels deep in each other, variables may refer to each other 64
times in a row, and parts may contain parts 64 levels deep.)"},
  CodeText{"SL0105", "the file is too large",
R"(A graph file has at most 16 MiB and a million values. Long lists of cases belong into a data file
that a source reads.)"},
  CodeText{"SL0106", "invalid UTF-8",
R"(The file is read as UTF-8. Save it in that encoding; the place shows the first bad byte.)"},
  CodeText{"SL0107", "a number does not fit",
R"(Integers have 64 bits with a sign, other numbers are doubles. A larger number would silently be
rounded, so it is refused.)"},
  CodeText{"SL0108", "a part's file that is not there",
R"(A part may stand in a file of its own: "parts": {"prepare": "parts/prepare.json"}. The path is
relative to the file that names it.)"},
  CodeText{"SL0109", "a comma or colon is missing",
R"(Members stand with commas between them, and a colon stands between a key and its value. The place
shown is the first thing that cannot follow; what is missing belongs in front of it.)"},
  CodeText{"SL0110", "the file ends too early",
R"(A bracket or a quote that was opened is not closed. The note says which one was opened last.)"},
  CodeText{"SL0111", "not a JSON value",
R"(Strings and keys stand in double quotes, not in single ones and not bare. The words of JSON are
true, false and null; Python's True, False and None, and NaN and Infinity, are none of them.)"},
  CodeText{"SL0112", "a comma too many",
R"(JSON has no comma behind the last member of an object or list.)"},

  CodeText{"SL0201", "wrong JSON type",
R"(Something else was expected here: an object, or a string. The message says what, and what was
found.)", true},
  CodeText{"SL0202", "unknown key",
R"(Nothing reads this key, so it is most likely a typing error. Keys that begin with "x-", and "ui",
are never read and may hold anything.)", true},
  CodeText{"SL0203", "unknown node type",
R"(`sluice inspect` lists the types; `sluice inspect TYPE` shows what one takes and gives. MONAI's
transforms have their names in snake_case, without the d: RandFlipd is rand_flip. The layers of a
network of one's own have types of their own, which graphs/README.md lists.)", true},
  CodeText{"SL0204", "a name that cannot be one",
R"(Nodes, networks and inputs of parts have names of letters, digits, _ and -. A dot would read as
a port, and / stands between a part and the node in it.)", true},
  CodeText{"SL0205", "unknown variable",
R"(A string that begins with @ stands for a variable of "vars" or, inside a part, for one of the
part's "params". It is replaced as a whole; there are no expressions.)"},
  CodeText{"SL0206", "unknown part",
R"("part" names an entry of "parts".)"},
  CodeText{"SL0207", "a part contains itself",
R"(A part is copied wherever it is used. One that uses itself, even through others, has no end.)"},
  CodeText{"SL0208", "no type",
R"(A node has a "type", or a "part" that it is a use of; a network and a layer have a "type".)", true},
  CodeText{"SL0209", "both type and part",
R"(A node is of a type, or it is a use of a part: remove one of the keys.)", true},

  CodeText{"SL0210", "no nodes",
R"("nodes" is not there, or is empty: the graph has nothing to run.)", true},
  CodeText{"SL0211", "a name is taken",
R"(Names are unique in a graph and in a part. A part's nodes become "use/node" and its inputs
"use/input", so neither may be called alike, and no other node may have such a name.)"},
  CodeText{"SL0212", "a network where a node belongs, or a node where a network belongs",
R"(Networks are declared under "models" and named by the nodes that read or update them, for example
{"type": "model", "net": "net"}. All other types are nodes.)", true},
  CodeText{"SL0213", "unknown network",
R"(`sluice inspect` lists the networks.)", true},
  CodeText{"SL0214", "variables in a circle",
R"(A variable may refer to others, but not, through them, to itself.)"},
  CodeText{"SL0215", "the graph expands to too much",
R"(Variables and parts may expand to 50 MB and 100000 nodes. Parts that use parts twice double with
every level.)"},
  CodeText{"SL0216", "a list where names are needed",
R"("nodes", "models", "parts" and "vars" are objects whose keys are the names: {"load": {"type": ...}}.
A node's name is how others refer to it and how --set finds it, and the order means nothing.)", true},
  CodeText{"SL0217", "a part's in or out in the wrong form",
R"("in" is the name of the part's input, or a list of names. "out" is "node", "node.port", or an object
from the outputs' names to such strings.)", true},
  CodeText{"SL0218", "unknown setting of the run",
R"("run" holds epochs, seed, stop, checkpoint, max_bad, threads, io_threads, step_threads, watchdog_s,
fuse and lazy; "stop" holds metric and one of at_least and at_most; "checkpoint" holds every_epochs,
every_s, keep, best and mode.)", true},
  CodeText{"SL0219", "a part without nodes",
R"(A part is an object with "nodes", and, where it has them, "in", "out" and "params".)", true},

  CodeText{"SL0221", "unknown parameter",
R"(`sluice inspect TYPE` lists the parameters of a type. They stand beside "type", not in an object of
their own.)", true},
  CodeText{"SL0222", "a parameter of the wrong type",
R"(Types are strict: true is no int and 1 is no bool. An int is read where a float is expected, and a
single value where a list is. A type that ends in ? takes null too.)", true},
  CodeText{"SL0223", "a number out of range",
R"(The type is right, but the number is too small or too large. `sluice inspect TYPE` shows the bounds;
for a list they hold for every element.)", true},
  CodeText{"SL0224", "a required parameter is missing",
R"(This parameter has no default.)", true},
  CodeText{"SL0225", "no network of that name",
R"(The parameter names an entry of "models".)"},
  CodeText{"SL0226", "a count below 1",
R"(A batch, a number of crops and a shuffle's window are at least 1.)", true},
  CodeText{"SL0227", "a number or a truth value in quotes",
R"("3" is a string and 3 is a number. In quotes only strings and "@name" stand.)", true},
  CodeText{"SL0228", "a fraction where a whole number is needed",
R"(An int may be written 2, 2.0 or 1e3, but it is never rounded: whether 2.5 should become 2 or 3 is
not for a program to guess.)", true},
  CodeText{"SL0229", "null where a value is needed",
R"(Only parameters whose type ends in ? take null. To get the default, leave the parameter out.)", true},

  CodeText{"SL0230", "not one of the words that are allowed",
R"(The parameter takes one of a few words, spelt as they stand in the message.)", true},
  CodeText{"SL0231", "a list of the wrong length",
R"(The parameter has a certain number of entries, such as [low, high]. A single value counts as a list
of one.)", true},
  CodeText{"SL0232", "parameters that exclude each other",
R"(Of these two parameters one may be set; null, false, "" and [] count as not set.)", true},
  CodeText{"SL0233", "one of two parameters is needed",
R"(Of these two parameters exactly one must be set; null, false, "" and [] count as not set.)", true},
  CodeText{"SL0234", "lists whose lengths do not fit",
R"(One list has an entry for each entry of the other (for each key, say), or one entry for all; or, as
a network's strides, one fewer.)"},
  CodeText{"SL0235", "a part has no such parameter",
R"(A part has the parameters that its "params" names, with their defaults.)"},
  CodeText{"SL0236", "numbers in the wrong order",
R"(Of two parameters one is a lower bound and the other an upper one, entry by entry where they are
lists; null is no bound. Or a list's numbers rise, such as [low, high].)"},
  CodeText{"SL0237", "a variable that nothing uses",
R"(Nothing refers to it by "@name", so changing it changes nothing.)"},
  CodeText{"SL0238", "a part that nothing uses",
R"(No node says "part" with its name. It was checked all the same.)"},
  CodeText{"SL0239", "a network that no node uses",
R"(No node names it, so it would be made and saved for nothing.)"},

  CodeText{"SL0301", "an input names no node",
R"("in" refers to a node by its name, or to one of its outputs by "node.port". A node inside a part is
"use/node".)"},
  CodeText{"SL0302", "no such output",
R"(The node exists but has no output of this name. Fields of a sample, such as image and label, are no
outputs: they travel together, and nodes choose among them with "keys".)"},
  CodeText{"SL0303", "no such input",
R"(The node type has no input of this name. `sluice inspect TYPE` lists them.)", true},
  CodeText{"SL0304", "an input is not connected",
R"(Every input that is not optional must be connected. "in": "node" connects the first one; for
others write {"port": "node"}.)", true},
  CodeText{"SL0305", "an input in the wrong form",
R"("in" is "node", "node.port", or an object from input names to such strings.)", true},
  CodeText{"SL0306", "a cycle",
R"(Samples flow in one direction. What a step should see of an earlier one (weights, statistics) is a
resource, such as a network, not an edge.)"},
  CodeText{"SL0307", "a source with an input",
R"(A source makes samples of its own. To run it after something, use "after".)", true},
  CodeText{"SL0308", "nothing can be read from there",
R"(The node has no outputs (it writes, measures or updates), or the part has no "out".)"},
  CodeText{"SL0309", "this node cannot be disabled",
R"(A disabled node or part with one input and one output is bypassed, and one without outputs is left
out. For others it is not clear what their neighbours should get.)"},
  CodeText{"SL0310", "only a source can wait",
R"("after" delays whole epochs of a stream, so it stands on the stream's source.)", true},
  CodeText{"SL0311", "after names no node",
R"("after" names the node that updates a network, for example the optimizer.)"},
  CodeText{"SL0312", "every_epochs without after",
R"("every_epochs" says after how many epochs of the updater in "after" a source runs.)", true},
  CodeText{"SL0313", "requires names no node",
R"("requires" names nodes that must be there, and are opened before this one: for example a node that
writes what this one reads.)"},
  CodeText{"SL0314", "requires in a circle",
R"(Of two nodes that require each other, neither can be opened first.)"},
  CodeText{"SL0315", "an input names a network",
R"(Samples come from nodes. A network is run by a node that names it: "model" or "sliding_window", with
"net".)"},
  CodeText{"SL0316", "a list of inputs",
R"(A list would connect by position, which is easy to get wrong. Write {"port": "node"}; a node with
one input takes one node. To mix the samples of several sources, use one source with several items.)", true},
  CodeText{"SL0317", "a source cannot be disabled",
R"(The nodes behind it would have nothing to work on. Disable the sinks at the end of its stream, or
take the nodes out.)"},
  CodeText{"SL0318", "a setting without effect",
R"(As the others stand, it changes nothing. "max_bad" bounds how many samples a node may quarantine,
each counted once however often it is bad, which it does only with "on_error": "quarantine". A
parameter of one "lr_schedule" is not read by another. A "from_epoch" at or beyond "run.epochs"
never comes.)"},
  CodeText{"SL0319", "nothing reads this node",
R"(The node computes something for every sample, and no node takes it. Most likely the node behind it
still reads the one in front.)"},
  CodeText{"SL0320", "after names a disabled node",
R"(A stream that waits for the epochs of a node that is left out would never run.)"},
  CodeText{"SL0321", "a part has no such input",
R"(A part has the inputs that its "in" names.)"},
  CodeText{"SL0322", "a part's input is not connected",
R"(Every input that a part's "in" names must be connected where the part is used. "in": "node" connects
the first one; for others write {"input": "node"}.)"},
  CodeText{"SL0323", "every node is disabled",
R"(Nothing is left to run.)"},
  CodeText{"SL0324", "a part cannot see the graph around it",
R"(Nodes in a part see each other and the part's inputs, so that a part can be used anywhere. What it
takes from outside is named in its "in" and connected where it is used.)"},

  CodeText{"SL0401", "a node without an input",
R"(Only sources begin a stream.)"},
  CodeText{"SL0402", "two streams in one node",
R"(Ports are joined sample by sample. What comes from two sources does not correspond: nothing says
which sample of the one belongs to which of the other. Let one source name both files.)"},
  CodeText{"SL0403", "too many 1:n nodes in a row",
R"(Each 1:n node adds a level to the stamps that identify samples, and there are four. A batch begins
anew.)"},
  CodeText{"SL0404", "joined behind a new count",
R"(Both inputs come from one source, but a 1:n node, a batch or a shuffle on the way of one of them
counted its samples anew, so they no longer correspond one to one. Join in front of it.)"},

  CodeText{"SL0410", "a network with two updaters",
R"(Two optimizers of one network would make the result depend on timing.)"},
  CodeText{"SL0411", "a reader beside the training",
R"(A node that reads a network in the stream that trains it, without leading to the updater, would
see weights of an arbitrary step. Give it a source of its own with "after". Behind the updater it
may stand where it leads to another network's updater, as a generator's pass through a discriminator
that has taken its step, and where a reader stands in front of both.)"},
  CodeText{"SL0412", "a buffer inside the training region",
R"(From the first node that reads a network to the one that updates it, one batch at a time holds the
weights. A buffering node would break that hold; put it in front.)"},
  CodeText{"SL0413", "when does this stream run?",
R"(A stream that reads a trained network needs to know between which training epochs it does so:
"after" on its source.)"},
  CodeText{"SL0414", "after names no updater",
R"("after" names a node that updates a network; other nodes have no turns to wait for.)"},
  CodeText{"SL0415", "a second stream that trains",
R"(Checkpoints are written between two turns, when nobody holds what learns, so one stream of a graph
trains: it may update several networks. And a stream that trains cannot wait for its own updates.)"},
  CodeText{"SL0416", "a second reader behind a 1:n of its region",
R"(The children of one batch are updated one by one, so what a second reader sees would depend on
timing. Move the 1:n in front of the first reader.)"},
  CodeText{"SL0417", "a follower that does not stand behind its network's updater",
R"(A running mean takes the weights as a step has left them, so its node reads what the updater of that
network sends on.)"},
  CodeText{"SL0418", "checkpoints by time where training begins at several nodes",
R"(A checkpoint within an epoch stands behind a step. Where two nodes begin training side by side, one
may be a step ahead of the other; where one stands behind the other's updater, a batch passes both.)"},
  CodeText{"SL0419", "a backward pass that comes too late",
R"(What a forward pass keeps serves one backward pass, with the weights that it had. So an updater's
loss cannot go back through a pass of a network that another updater has changed since, and two
updaters cannot train on one loss: each needs passes and a loss of its own, the second one's behind
the first updater.)"},

  CodeText{"SL0420", "a cache behind something that changes",
R"(A cache keeps what it saw in the first epoch. Random, 1:n, n:1 and stateful nodes give something
else every epoch, so they belong behind the cache.)"},

  CodeText{"SL0421", "a disk cache behind a node that writes files",
R"(A run that finds a sample in a cache on disk leaves out all that stands in front of it, so files
that a node there writes would be missing. Write behind the cache, or keep samples in memory.)"},

  CodeText{"SL0422", "a device cache on the host",
R"(With store "device" a cache keeps what lies in the device's memory, so a to_device has to stand in
front of it. On a machine without a GPU the same graph keeps the samples in the host's memory.)"},

  CodeText{"SL0430", "too few credits",
R"(A segment's credits bound how many samples are in it. A batch of B holds B-1 back until it is
complete, so with fewer credits than that (and one more) nothing could ever move.)"},

  CodeText{"SL0431", "more on the device than its budget",
R"(run.device_budget bounds the samples in a GPU's memory: those in flight behind to_device, as many as
their segments have credits, and those in caches with store "device". Sizes are lower bounds: fields
whose extents depend on the data are not counted.)"},

  CodeText{"SL0432", "too many samples",
R"(The numbers of samples that a node gathers, sends or lets ahead are counted, and so are the credits
that follow from them. No machine holds as many as could not be counted; most likely it is a typing
error.)"},

  CodeText{"SL0440", "a metric that nobody knows in time",
R"(The stop rule and a learning rate's plateau look at a metric between two training epochs, and only
those of validation sinks and updaters are complete then. The name is "node.metric".)"},
  CodeText{"SL0441", "no such metric",
R"(The node exists and reports metrics, but none of this name. `sluice inspect TYPE` lists them.)"},

  CodeText{"SL0450", "batches that run.shards does not divide",
R"(Each training batch is computed in run.shards parts, and an item of the source belongs to one of
them by its place in the epoch alone. So there is one batch between source and model, of a whole
number of items, at least one a shard; nothing between them mixes items of different shards, and
nothing behind the batch makes several of one. Several processes take one network's step at a time,
so two networks do not begin side by side, but one behind the other's updater.)"},
  CodeText{"SL0451", "run.shards without run.step_threads",
R"(With run.shards given, the weights are the same to the bit for any number of processes. The threads
that compute a shard are another matter: sums in a convolution are made in as many parts. By default
a process takes the cores that are its own, which differ with the number of processes: give
run.step_threads, and nothing depends on the machine.)"},
  CodeText{"SL0452", "what couples the samples of a batch, in shards",
R"(A loss that is no mean over samples ("batch": true, "reduction": "sum", a cross entropy's class
weights, contrastive losses) and what mixes members of a batch (mix_up, cut_mix) see with run.shards
the samples of one shard alone. The loss is then the mean of the shards' losses, which is another
number: of a sum, one shard's share. That is what PyTorch's DistributedDataParallel does too.)"},
  CodeText{"SL0453", "a node that is given the first process's shards alone",
R"(With run.shards each process computes a part of every training batch. What the optimizer logs and
reports is of all parts, and most metrics are put together from them at an epoch's end. A node that
writes a list, a digest or pictures, or logs a mean on the way (running_mean), works in the first
process and sees what that one computes.)"},
  CodeText{"SL0460", "a file that two nodes write",
R"(Of a file that two nodes of a run write, what one of them wrote would be lost, or their lines would
stand in an order that timing decides. Each node names a file of its own.)"},

  CodeText{"SL0501", "--set names nothing",
R"(--set changes what is there: variables, run settings, parameters of nodes and networks. The path
is the one that diagnostics print, such as nodes.step.lr, run.epochs, vars.root, nodes.crop.size.0,
or nodes.pre/load.keys for a node inside a part.)"},
  CodeText{"SL0502", "--set in the wrong form",
R"(Write --set path=value. The value is JSON, or text where it is none: --set vars.root=/data,
--set nodes.crop.size=[64,64,64]. With a + in front, path=value adds a variable, node, network or
list entry that is not there; ~path removes what is.)"},
  CodeText{"SL0503", "--set +path adds what is there",
R"(+path=value adds something new, so that a typing error cannot replace something old. Without the +
the value is changed.)"},
  CodeText{"SL0511", "--set goes into a variable's value",
R"(The value is "@name" in the file, and has no members of its own. Set the variable: every place that
uses it changes with it.)"},
  CodeText{"SL0512", "--set leaves a list",
R"(Elements of a list are counted from 0, and only those that exist can be set. To make a list longer,
set the whole list: --set nodes.crop.spatial_size=[64,64,64].)"},

  CodeText{"SL0601", "a field that does not arrive",
R"(A node works on named fields of its samples, and this one is not among those that arrive: a source
makes them, and select_items lets the others go. Most nodes name theirs with "keys".)"},
  CodeText{"SL0602", "a field that is still a path",
R"(Sources emit paths. load_image turns the fields named by its "keys" into voxels.)"},
  CodeText{"SL0603", "a batch where a single sample belongs",
R"(Transforms take single samples [C, X, Y, Z], batch makes [N, C, X, Y, Z] of them: transforms stand
in front of batch.)"},
  CodeText{"SL0604", "a single sample where a batch belongs",
R"(Networks and losses take batches [N, C, X, Y, Z]. Put a batch node in front; "size" may be 1.
sliding_window takes single images too.)"},
  CodeText{"SL0605", "another number of spatial axes",
R"(A size, a stride or an axis code with three entries is for volumes, with two for slices. Lists with
one entry, and single numbers, hold for every axis.)"},
  CodeText{"SL0606", "an axis that is not there",
R"(Spatial axes are counted from 0, without the channels; -1 is the last one.)"},
  CodeText{"SL0607", "another number of channels",
R"(A network's "in_channels" is the number of channels of the field that enters it.)"},
  CodeText{"SL0608", "samples on the wrong device",
R"(Behind to_device samples may lie in a GPU's memory, and this node works on host memory. A graph is
checked as if there were a GPU, so that it runs on any machine.)"},
  CodeText{"SL0609", "extents that a network cannot halve",
R"(A U-Net halves its input between levels (or divides it by another stride) and doubles it on the
way back. Both meet only if every extent is a multiple of the product of the strides. In other
software this is an error about tensor sizes in the middle of the first step.)"},
  CodeText{"SL0610", "integers enter a network",
R"(Networks take float32. load_image reads it by default ("dtype"); intensity transforms make it.)"},
  CodeText{"SL0611", "a field named twice",
R"(A transform would be applied to this field two times.)"},
  CodeText{"SL0612", "samples of several sizes in one batch",
R"(A batch stacks samples, which needs one shape. Behind a node whose result's size depends on the
sample (spacing, crop_foreground), a crop or resize_with_pad_or_crop makes the sizes equal. It is a
warning, since all samples of a data set may be alike.)"},
  CodeText{"SL0613", "a loss that no gradient leaves",
R"(Between "model" and a loss that an optimizer follows, each node must hand gradients on: a loss of
what argmax made of the prediction would train nothing. Losses, sum_losses, warp, dvf2ddf,
concat_items, copy_items, activations and model hand them on. What comes before the model may be
made by any node, and so may a label.)"},
};
// clang-format on

}  // namespace

std::span<const CodeText> all_codes() { return codes; }

const CodeText* find_code(std::string_view code) {
  const auto at =
      std::find_if(codes.begin(), codes.end(), [&](const CodeText& c) { return c.code == code; });
  return at == codes.end() ? nullptr : at;
}

}  // namespace sluice
