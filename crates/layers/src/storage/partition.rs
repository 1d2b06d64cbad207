//! Resolves claims on stretches of a call into pieces of one layer each. Must not know why anything
//! is claimed.

use roundtrip_sorting::SmallSort as _;

use super::{Layer, Piece, Write};

/// Contiguous pieces from the start of the call to its end. At each instant, the first layer that
/// claims it wins, in the order of layers. If none does, the fallback's claims apply.
pub(super) fn pieces(write: Write, claims: &[Piece], fallback: &[Piece]) -> Vec<Piece> {
    // The begin and end of each claim, with the rank of its layer. The fallback's claims rank last.
    let of = |claims: &[Piece], after: usize| {
        let claims = clipped(write, claims);
        let ends = claims.into_iter().flat_map(move |claim| {
            let rank = after + claim.layer as usize;
            [(claim.begin_ns, rank, true), (claim.end_ns, rank, false)]
        });
        ends.collect::<Vec<_>>()
    };
    let mut ends = of(claims, 0);
    ends.extend(of(fallback, Layer::ALL.len()));
    ends.small_sort_by_key(|end| *end);
    let mut claimed = [0_u32; 2 * Layer::ALL.len()];
    let mut out: Vec<Piece> = Vec::new();
    let mut until = |end_ns: u64, claimed: &[u32]| {
        let begin_ns = out.last().map_or(write.start_ns, |last| last.end_ns);
        if begin_ns == end_ns {
            return;
        }
        let first = claimed.iter().position(|&claims| claims > 0);
        let layer = first.map_or(Layer::Unexplained, |rank| Layer::ALL[rank % Layer::ALL.len()]);
        match out.last_mut() {
            Some(last) if last.layer == layer => last.end_ns = end_ns,
            _ => out.push(Piece { begin_ns, end_ns, layer }),
        }
    };
    for (time_ns, rank, begins) in ends {
        until(time_ns, &claimed);
        if begins {
            claimed[rank] += 1;
        } else {
            claimed[rank] -= 1;
        }
    }
    until(write.end_ns, &claimed);
    out
}

/// How much of these stretches is in pieces that wait for a CPU, in nanoseconds.
pub(super) fn within(pieces: &[Piece], stretches: &[(u64, u64)]) -> u64 {
    let mut stretches = stretches.to_vec();
    stretches.sort_unstable();
    let waiting =
        |piece: &&Piece| matches!(piece.layer, Layer::Block | Layer::Wake | Layer::Preempted | Layer::Stolen);
    let mut pieces = pieces.iter().filter(waiting).peekable();
    let (mut sum_ns, mut until_ns) = (0, 0);
    for (begin_ns, end_ns) in stretches {
        while let Some(piece) = pieces.peek() {
            let end_ns = end_ns.min(piece.end_ns);
            sum_ns += end_ns.saturating_sub(begin_ns.max(until_ns).max(piece.begin_ns));
            until_ns = until_ns.max(end_ns);
            if end_ns < piece.end_ns {
                break;
            }
            pieces.next();
        }
    }
    sum_ns
}

/// The claims, clipped to the call.
fn clipped(write: Write, claims: &[Piece]) -> Vec<Piece> {
    let within = |claim: &Piece| Piece {
        begin_ns: claim.begin_ns.max(write.start_ns),
        end_ns: claim.end_ns.min(write.end_ns),
        ..*claim
    };
    claims.iter().map(within).filter(|claim| claim.begin_ns < claim.end_ns).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITE: Write = Write { start_ns: 100, end_ns: 200, tid: 1 };

    fn piece(begin_ns: u64, end_ns: u64, layer: Layer) -> Piece {
        Piece { begin_ns, end_ns, layer }
    }

    #[test]
    fn the_first_layer_that_holds_has_the_time_and_what_nobody_claims_is_shown() {
        let claims = [
            piece(90, 150, Layer::Fs),
            piece(120, 140, Layer::Device),
            piece(110, 130, Layer::Block),
            piece(170, 300, Layer::Platform),
        ];
        assert_eq!(
            pieces(WRITE, &claims, &[piece(0, 115, Layer::Held), piece(155, 160, Layer::Block)]),
            [
                piece(100, 110, Layer::Fs),
                piece(110, 120, Layer::Block),
                piece(120, 140, Layer::Device),
                piece(140, 150, Layer::Fs),
                piece(150, 155, Layer::Unexplained),
                piece(155, 160, Layer::Block),
                piece(160, 170, Layer::Unexplained),
                piece(170, 200, Layer::Platform),
            ]
        );
    }

    #[test]
    fn what_overlaps_is_counted_once_and_only_where_somebody_waits_for_a_cpu() {
        let pieces =
            [piece(100, 120, Layer::Wake), piece(120, 160, Layer::Device), piece(160, 200, Layer::Stolen)];
        assert_eq!(within(&pieces, &[(150, 170), (90, 110), (105, 130), (165, 180)]), 20 + 20);
        assert_eq!(within(&pieces, &[]), 0);
    }

    proptest! {
        #[test]
        fn any_claims_make_contiguous_pieces(
            claims in proptest::collection::vec((0..300_u64, 0..300_u64, 0..Layer::ALL.len()), 0..30),
        ) {
            let claims: Vec<Piece> =
                claims.into_iter().map(|(begin, end, layer)| piece(begin, end, Layer::ALL[layer])).collect();
            let (claims, fallback) = claims.split_at(claims.len() / 2);
            let pieces = pieces(WRITE, claims, fallback);
            prop_assert_eq!(pieces.first().map(|piece| piece.begin_ns), Some(100));
            prop_assert_eq!(pieces.last().map(|piece| piece.end_ns), Some(200));
            for pair in pieces.windows(2) {
                prop_assert_eq!(pair[0].end_ns, pair[1].begin_ns);
                prop_assert_ne!(pair[0].layer, pair[1].layer);
            }
            prop_assert!(pieces.iter().all(|piece| piece.begin_ns < piece.end_ns));
        }
    }
}
