"""Linear algebra and Fourier transforms depend on what PyTorch's do."""

from __future__ import annotations

import pytest

from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("torch.fft.fft(x)", {"x": (4, 3)}),
    ("torch.fft.rfft(x, dim=0).abs()", {"x": (4, 3)}),
    ("torch.fft.irfft(torch.fft.rfft(x,dim=-1), n=3, dim=-1)", {"x": (4, 3)}),
    ("torch.fft.fft2(x).real", {"x": (4, 3)}),
    ("torch.fft.rfft(x, n=8)", {"x": (6,)}),
    ("torch.fft.ifft(torch.fft.fft(x)*torch.fft.fft(y)).real", {"x": (6,), "y": (6,)}),
    ("torch.fft.fftshift(x)", {"x": (6,)}),
    ("torch.fft.rfftn(x, dim=(0,1)).imag", {"x": (4, 3)}),
    ("z=torch.view_as_complex(x.reshape(3,2))\n(z*torch.exp(1j*torch.tensor(0.3))).imag", {"x": (6,)}),
    ("torch.complex(x,y).abs()", {"x": (6,), "y": (6,)}),
    ("torch.polar(x.abs(),y).real", {"x": (6,), "y": (6,)}),
    ("z=torch.complex(x,y)\ntorch.view_as_real(z*z.conj())", {"x": (6,), "y": (6,)}),
    ("torch.stft(x,4,hop_length=2,window=torch.hann_window(4).double(),return_complex=True).abs()", {"x": (12,)}),
    ("torch.stft(x,4,2,center=False,window=torch.ones(4).double(),return_complex=True).abs()", {"x": (2, 12)}),
    (
        "torch.istft(torch.stft(x,4,hop_length=2,window=torch.ones(4).double(),return_complex=True),4,hop_length=2,window=torch.ones(4).double())",
        {"x": (12,)},
    ),
    ("torch.linalg.inv(x@x.T+torch.eye(4).double()*3)", {"x": (4, 4)}),
    ("torch.linalg.solve(x+5*torch.eye(4).double(),y)", {"x": (4, 4), "y": (4, 2)}),
    ("torch.linalg.cholesky(x@x.mT+torch.eye(3).double())", {"x": (3, 3)}),
    ("torch.linalg.solve_triangular(x.triu()+3*torch.eye(3).double(),y,upper=True)", {"x": (3, 3), "y": (3, 2)}),
    (
        "torch.linalg.solve_triangular(x.triu()+3*torch.eye(3).double(),y,upper=True,left=False)",
        {"x": (3, 3), "y": (2, 3)},
    ),
    ("torch.linalg.det(x)", {"x": (2, 3, 3)}),
    ("torch.linalg.slogdet(x).logabsdet", {"x": (3, 3)}),
    ("torch.linalg.qr(x).R", {"x": (4, 3)}),
    ("torch.linalg.qr(x)[0]", {"x": (4, 3)}),
    ("torch.linalg.svdvals(x)", {"x": (4, 3)}),
    ("torch.linalg.svd(x,full_matrices=False).S", {"x": (4, 3)}),
    ("torch.linalg.eigh(x+x.T).eigenvalues", {"x": (3, 3)}),
    ("torch.linalg.norm(x,dim=1)", {"x": (4, 3)}),
    ("torch.linalg.matrix_norm(x)", {"x": (2, 4, 3)}),
    ("torch.linalg.vector_norm(x,ord=1,dim=0)", {"x": (4, 3)}),
    ("torch.linalg.matrix_power(x,3)", {"x": (3, 3)}),
    ("torch.linalg.matrix_exp(x)", {"x": (3, 3)}),
    ("torch.linalg.pinv(x)", {"x": (4, 3)}),
    ("torch.linalg.lstsq(x,y).solution", {"x": (4, 3), "y": (4, 2)}),
    ("torch.linalg.multi_dot([x,x.T,x])", {"x": (4, 3)}),
    ("torch.cross(x,y,dim=1)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.linalg.cross(x.T,y.T,dim=0)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.kron(x,y)", {"x": (2, 3), "y": (2, 2)}),
    ("torch.kron(x,y)", {"x": (3,), "y": (2,)}),
    ("torch.tensordot(x,y,dims=([0],[0]))", {"x": (4, 3), "y": (4, 3)}),
    ("torch.tensordot(x,y,2)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.trace(x)", {"x": (4, 3)}),
    ("torch.inner(x,y)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.vander(x,N=3)", {"x": (6,)}),
    ("torch.cov(x)", {"x": (4, 3)}),
    ("torch.corrcoef(x)", {"x": (4, 3)}),
    ('torch.einsum("ii->i",x)', {"x": (4, 4)}),
    ('torch.einsum("ii",x)', {"x": (4, 4)}),
    ('torch.einsum("bij,bjk->bik",x,y)', {"x": (2, 2, 3), "y": (2, 3, 2)}),
    ('torch.einsum("...i,...i->...",x,y)', {"x": (4, 3), "y": (4, 3)}),
    ('torch.einsum("i...,i...->...",x,y)', {"x": (4, 3), "y": (4, 3)}),
    ('torch.einsum("bii->bi",x)', {"x": (2, 3, 3)}),
    ("torch.addmm(x,y,y.T,beta=0.5)", {"x": (4, 4), "y": (4, 3)}),
    ("torch.baddbmm(x,y,y.mT)", {"x": (2, 3, 3), "y": (2, 3, 2)}),
    ("torch.addcmul(x,y,y,value=0.5)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.addr(x,y[0],y[1][:3])", {"x": (3, 3), "y": (2, 3)}),
    ("torch.cdist(x,y)", {"x": (4, 3), "y": (3, 3)}),
    ("torch.outer(x,y)", {"x": (6,), "y": (6,)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_a_transform_or_a_decomposition_loses_no_source(code: str, shapes: Shapes) -> None:
    """What mixes a matrix or a dim depends on all that it mixes."""
    assert holds(code, shapes) > 0
