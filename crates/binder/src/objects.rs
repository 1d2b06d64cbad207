//! [`Binder`]: an object of this or another process.

use roundtrip_binder_driver::uapi::{BINDER_TYPE_HANDLE, FlatBinderObject};

use crate::parcel::Kept;
use crate::{Local, Proxy, Stability};

/// An object of this or another process.
#[derive(Clone, Debug)]
pub enum Binder {
    /// Published by this process.
    Local(Local),
    /// Published by another process.
    Remote(Proxy),
}

impl Binder {
    pub(crate) fn to_object(&self) -> FlatBinderObject {
        match self {
            Self::Local(local) => local.to_object(),
            Self::Remote(proxy) => FlatBinderObject {
                kind: BINDER_TYPE_HANDLE,
                binder: proxy.handle().into(),
                ..Default::default()
            },
        }
    }

    /// The reference that a parcel keeps while it contains this object.
    pub(crate) fn kept(&self) -> Kept {
        match self {
            Self::Local(local) => local.0.clone(),
            Self::Remote(proxy) => proxy.kept(),
        }
    }

    pub(crate) fn stability(&self) -> Stability {
        match self {
            Self::Local(local) => local.stability(),
            Self::Remote(proxy) => proxy.stability(),
        }
    }

    /// Returns the proxy if the object belongs to another process.
    #[must_use]
    pub fn remote(&self) -> Option<&Proxy> {
        match self {
            Self::Remote(proxy) => Some(proxy),
            Self::Local(_) => None,
        }
    }

    /// Returns true if both are the same object.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(one), Self::Local(other)) => one.same(other),
            (Self::Remote(one), Self::Remote(other)) => one.same(other),
            _ => false,
        }
    }
}
