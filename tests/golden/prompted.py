"""MONAI's VISTA3D with the inputs and parameters of vista3d."""
import torch
from monai.networks.nets import SegResNetDS2
from monai.networks.nets.vista3d import ClassMappingClassify, PointMappingSAM, VISTA3D


def prompted(prompts, encoder_embed_dim, n_classes, last_supported, blocks_down, in_channels=1, radius=None):
    """Heads and ways up that nothing asks for are left out; MONAI takes one image at a time."""
    c = encoder_embed_dim
    encoder = SegResNetDS2(in_channels=in_channels, blocks_down=blocks_down, norm="instance", out_channels=c, init_filters=c,
                           dsdepth=1)
    net = VISTA3D(encoder, ClassMappingClassify(n_classes, c),
                  PointMappingSAM(c, n_classes=n_classes, last_supported=last_supported))
    plain, waves = net.forward, net.point_head.pe_layer
    encoding = waves._pe_encoding  # its own takes float32 alone
    waves._pe_encoding = lambda x: encoding(x.to(waves.positional_encoding_gaussian_matrix.dtype))
    if "class" not in prompts:
        net.class_head, encoder.up_layers_auto = None, torch.nn.ModuleList()
    if "point" not in prompts:
        net.point_head = None
        encoder.up_layers = torch.nn.ModuleList(torch.nn.Identity() for _ in encoder.up_layers)  # they are counted

    def forward(x, classes, coords=None, labels=None):
        def one(b):
            asked = classes[b].long()[:, None]
            points = {}
            if "point" in prompts:
                points = dict(point_coords=coords[b], point_labels=labels[b].long(), prompt_class=asked)
            return plain(x[b:b + 1], class_vector=asked if "class" in prompts else None, radius=radius, transpose=True,
                         **points)

        return torch.cat([one(b) for b in range(len(x))])

    net.forward = forward
    return net
