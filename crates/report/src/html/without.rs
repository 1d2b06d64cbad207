//! The predictions of what is left without a cause, on the page: a table, and a sentence beside the
//! advice.

use roundtrip_analysis::slow_calls::Kept;
use roundtrip_analysis::without::Left;

use super::page::Page;
use super::subject::Subject;
use crate::explanation::{summary, without};
use crate::storage::slow_writes;

/// Adds the table, unless it would be empty. `what` names the operations in the plural: "calls".
pub(super) fn section(page: &mut Page, left: &[Left], what: &str) {
    if !left.is_empty() {
        page.table(&without::heading(what), &without::table(left));
        page.paragraphs("note", &without::caveat(what));
    }
}

/// What fixing the first cause of a run would bring.
pub(super) fn sentence(subject: &Subject<'_>) -> Option<String> {
    let run = subject.analysed.run;
    if let Some(kept) = Kept::of(run) {
        let left = summary::left(subject.explained, &kept);
        return without::sentence(&left, kept.missed(), "calls");
    }
    let result = run.results.observed_writes.as_ref()?;
    let left = slow_writes::without(subject.analysed, &slow_writes::causes_of(subject.analysed));
    without::sentence(&left, Some(result.missed()), "writes")
}
