//! Why a run cannot be shown.

/// Why a run cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run itself cannot be represented as JSON.
    #[error(transparent)]
    Run(#[from] roundtrip_run::Error),
    /// A derived part, such as an explanation, cannot be represented as JSON.
    #[error(transparent)]
    Json(#[from] roundtrip_stored::Error),
}
