"""Writes detection.json: what the parts of MONAI 1.6.1's detector answer.

Run with a Python that has MONAI, torchvision and torch; the result is kept in the repository:
    python tests/golden/make_detection.py
Maps are sines (tests/nodes/golden_train.h's), boxes are those of `boxes` below.
"""
import json
import pathlib

import torch
from monai.apps.detection.metrics.coco import COCOMetric
from monai.apps.detection.metrics.matching import matching_batch
from monai.apps.detection.networks.retinanet_detector import RetinaNetDetector
from monai.apps.detection.utils.anchor_utils import AnchorGenerator, AnchorGeneratorWithAnchorShape
from monai.data import box_utils
from monai.losses import BoxGIoULoss, FocalLoss

from filled import number, sines

torch.set_num_threads(1)


def rounded(t):
    return [rounded(v) for v in t] if t.dim() else number(t)


def anchors():
    image, grids = [2, 1, 32, 24, 20], ([16, 12, 10], [8, 6, 5])
    maps = [torch.zeros(2, 3, *g) for g in grids]
    sized = dict(sizes=[[6, 9], [12]], aspect_ratios=[[[0.5, 1], [1, 2], [1, 1]], [[1, 1], [3, 0.5], [0.7, 1]]])
    shaped = dict(feature_map_scales=[1, 2.5], base_anchor_shapes=[[4, 5, 6], [7, 3, 2]], indexing="xy")
    flat = dict(sizes=[8, 16], aspect_ratios=[0.5, 1, 2])
    out = []
    for kind, args, dims in ((AnchorGenerator, sized, 3), (AnchorGeneratorWithAnchorShape, shaped, 3), (AnchorGenerator, flat, 2)):
        a = kind(**args)(torch.zeros(image[:dims + 2]), [m[..., 0] if dims == 2 else m for m in maps])[0]
        out.append(dict(type="anchor_generator" + ("" if kind is AnchorGenerator else "_with_anchor_shape"), params=args,
                        image=image[:dims + 2], grids=[g[:dims] for g in grids], size=list(a.shape),
                        rows=[rounded(a[i]) for i in range(0, len(a), 97)], sum=number(a.double().abs().sum())))
    return out


class Maps(torch.nn.Module):
    def __init__(self, dims, classes, anchors, maps):
        super().__init__()
        self.spatial_dims, self.num_classes, self.num_anchors, self.maps = dims, classes, anchors, maps
        self.size_divisible, self.cls_key, self.box_reg_key = 1, "classification", "box_regression"

    def forward(self, images):
        return self.maps


def detectors():
    out = []
    for dims, options in ((3, {}), (2, dict(cls_loss="focal", alpha=0.25, box_loss="giou")),
                          (3, dict(batch_size_per_image=64, positive_fraction=0.5, pool_size=1, center_in_gt=True)),
                          (2, dict(matcher="iou", fg_iou_thresh=0.4, bg_iou_thresh=0.2, box_coder_weights=[2, 1, 3, 1.5])),
                          (2, dict(matcher="iou", fg_iou_thresh=0.5, bg_iou_thresh=0.3, allow_low_quality_matches=False))):
        classes, batch = 3, 2
        shapes = [[6] * dims, [9, 5, 7][:dims]]
        generator = AnchorGeneratorWithAnchorShape([1, 2], shapes)
        grids = [[8, 6, 4][:dims], [4, 3, 2][:dims]]
        image = [32, 24, 16][:dims]
        cls = [sines([batch, 2 * classes, *g], 1 + i, 1.5).requires_grad_() for i, g in enumerate(grids)]
        reg = [sines([batch, 4 * dims, *g], 7 + i, 0.5).requires_grad_() for i, g in enumerate(grids)]
        net = Maps(dims, classes, 2, dict(classification=cls, box_regression=reg))
        detector = RetinaNetDetector(net, generator)
        boxes = [torch.tensor([[3, 2, 4, 12, 9, 11], [10, 8, 2, 17, 20, 9], [20, 4, 5, 26, 10, 13]], dtype=torch.float32),
                 torch.tensor([[8, 6, 3, 15, 12, 8]], dtype=torch.float32)]
        if dims == 2:
            boxes = [b[:, [0, 1, 3, 4]] for b in boxes]
        targets = [dict(boxes=boxes[0], labels=torch.tensor([2, 0, 1])), dict(boxes=boxes[1], labels=torch.tensor([1]))]
        if options.get("matcher") == "iou":
            detector.set_regular_matcher(options["fg_iou_thresh"], options["bg_iou_thresh"],
                                         options.get("allow_low_quality_matches", True))
        else:
            detector.set_atss_matcher(4, options.get("center_in_gt", False))
        if "batch_size_per_image" in options:
            detector.set_hard_negative_sampler(options["batch_size_per_image"], options["positive_fraction"],
                                               pool_size=options["pool_size"])
        if options.get("cls_loss") == "focal":
            detector.set_cls_loss(FocalLoss(gamma=2.0, alpha=options["alpha"], reduction="mean"))
        if options.get("box_loss") == "giou":
            detector.set_box_regression_loss(BoxGIoULoss(reduction="mean"), encode_gt=False, decode_pred=True)
        if "box_coder_weights" in options:
            detector.set_box_coder_weights(options["box_coder_weights"])
        images = torch.zeros(batch, 1, *image)
        losses = detector.train()(images, [dict(t) for t in targets])
        (losses["classification"] + losses["box_regression"]).backward()
        net.maps = dict(classification=[c.detach() for c in cls], box_regression=[r.detach() for r in reg])
        detector.set_box_selector_parameters(score_thresh=0.6, topk_candidates_per_level=40, nms_thresh=0.3,
                                             detections_per_img=15)
        detector.eval()
        found = detector(images)
        out.append(dict(
            params=options, shapes=shapes, image=image, grids=grids, classes=classes,
            boxes=[rounded(b) for b in boxes], labels=[t["labels"].tolist() for t in targets],
            classification=number(losses["classification"]), box_regression=number(losses["box_regression"]),
            grads=[number(t.grad.double().norm()) if t.grad is not None else 0 for t in (*cls, *reg)],
            found=[dict(boxes=rounded(f["boxes"]), labels=f["labels"].tolist(), scores=rounded(f["labels_scores"]))
                   for f in found]))
    return out


def coco():
    generator = torch.Generator().manual_seed(1)
    out = []
    for dims, args in ((2, {}), (3, dict(iou_list=[0.2, 0.5], iou_range=[0.2, 0.6, 0.1], max_detection=[2, 10]))):
        classes, cases = ["a", "b", "c"], []
        for case in range(4):
            low = torch.rand(5 + case, dims, generator=generator) * 20
            truth = torch.cat([low, low + 4 + torch.rand(low.shape, generator=generator) * 6], 1)
            label = torch.randint(0, 2, (len(truth),), generator=generator)
            moved = truth + torch.randn(truth.shape, generator=generator)
            boxes = torch.cat([moved, moved[:2] + 3])
            keep = (boxes[:, dims:] > boxes[:, :dims]).all(1)
            pred_label = torch.cat([label, label[:2]])
            pred_label[0] = 2  # of which the truth has none
            cases.append(dict(boxes=boxes[keep], labels=pred_label[keep],
                              scores=torch.rand(len(boxes), generator=generator)[keep], truth=truth, truth_labels=label))
        metric = COCOMetric(classes, **args, verbose=False)
        pairs = matching_batch(iou_fn=box_utils.box_iou, iou_thresholds=metric.iou_thresholds,
                               pred_boxes=[c["boxes"].numpy() for c in cases], pred_classes=[c["labels"].numpy() for c in cases],
                               pred_scores=[c["scores"].numpy() for c in cases], gt_boxes=[c["truth"].numpy() for c in cases],
                               gt_classes=[c["truth_labels"].numpy() for c in cases],
                               max_detections=max(metric.max_detections))
        values = metric(pairs)[0]
        out.append(dict(params=dict(args, class_names=classes),
                        cases=[{k: rounded(v) if v.is_floating_point() else v.tolist() for k, v in c.items()} for c in cases],
                        values={k: number(v) for k, v in values.items()}))
    return out


made = dict(monai="1.6.1", torch=torch.__version__, anchors=anchors(), detectors=detectors(), coco=coco())
text = json.dumps(made, indent=0).replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]")
(pathlib.Path(__file__).parent / "detection.json").write_text(text + "\n")
