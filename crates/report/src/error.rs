//! Why a run cannot be shown.

/// Why a run cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run itself cannot be represented as JSON.
    #[error(transparent)]
    Run(#[from] run::Error),
    /// What is shown of it cannot be.
    #[error(transparent)]
    Json(#[from] stored::Error),
}
