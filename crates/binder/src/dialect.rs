//! [`Dialect`]: which Android's library the other side has. The layout of parcels and the methods
//! of the service manager changed with its releases, and nothing in a transaction says which is
//! meant, so both sides of a context have to agree.

/// Whose layout a process of the binder stack writes and reads. Hwbinder's has never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Android 10: interface tokens without a header word, binders without a stability word, and a
    /// service manager written in C.
    Android10,
    /// Android 11: a header word in interface tokens, and a stability word behind each binder.
    Android11,
    /// Android 12 and 12L: the stability word has a version.
    Android12,
    /// Android 13, 14, and the first builds of 15 (before `android-15.0.0_r6`): the stability word
    /// is Android 11's again.
    Android13,
    /// Android 15 from `android-15.0.0_r6` on: the service manager has `getService2`.
    Android15,
    /// Android 16, and `rsbinder` on Linux: the service manager has `checkService2`.
    #[default]
    Android16,
}

impl Dialect {
    /// All, the oldest first.
    pub const ALL: [Self; 6] = [
        Self::Android10,
        Self::Android11,
        Self::Android12,
        Self::Android13,
        Self::Android15,
        Self::Android16,
    ];

    /// True when interface tokens have the header word `SYST`.
    pub(crate) fn has_header(self) -> bool {
        self != Self::Android10
    }

    /// The word behind a binder, if there is one (`Stability.cpp` of the release).
    pub(crate) fn stability_word(self, stability: Stability) -> Option<i32> {
        let level = stability as i32;
        match self {
            Self::Android10 => None,
            Self::Android12 => Some(level << 24 | CATEGORY_VERSION),
            _ => Some(level),
        }
    }
}

/// The first byte of Android 12's stability word; two reserved ones and the level follow.
const CATEGORY_VERSION: i32 = 1;

/// What an object's interface promises to stay compatible with (`Stability.h`). Android's library
/// refuses calls to an object whose promise does not cover the caller's own part of the system: a
/// system process calls `System` and `Vintf` ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Stability {
    /// Nothing is promised. No object of Android's library travels so.
    Undeclared = 0,
    /// Compatible within the vendor's partitions.
    Vendor = 0b00_0011,
    /// Compatible within the system: what Android's own processes, and a shell's, promise.
    #[default]
    System = 0b00_1100,
    /// A stable interface, compatible between both (`@VintfStability`).
    Vintf = 0b11_1111,
}

impl Stability {
    /// What a received word says, in either of its forms: a level has one byte, so a version before
    /// it shows. `None` for a level that there is not.
    pub(crate) fn from_word(word: i32) -> Option<Self> {
        let level = if word & !0xff == 0 && word != CATEGORY_VERSION { word } else { word >> 24 & 0xff };
        [Self::Undeclared, Self::Vendor, Self::System, Self::Vintf]
            .into_iter()
            .find(|known| *known as i32 == level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stability_words_are_those_of_the_releases() {
        let words = |stability| Dialect::ALL.map(|dialect| dialect.stability_word(stability));
        assert_eq!(
            words(Stability::System),
            [None, Some(12), Some(0x0c00_0001), Some(12), Some(12), Some(12)]
        );
        assert_eq!(words(Stability::Undeclared)[2], Some(1));
        assert_eq!(words(Stability::Vintf)[1..3], [Some(63), Some(0x3f00_0001)]);
    }

    #[test]
    fn every_word_that_is_written_is_read_and_no_other_level() {
        for stability in [Stability::Undeclared, Stability::Vendor, Stability::System, Stability::Vintf] {
            for word in Dialect::ALL.iter().filter_map(|dialect| dialect.stability_word(stability)) {
                assert_eq!(Stability::from_word(word), Some(stability), "{word:#x}");
            }
        }
        for word in [2, 13, 64, 255, 0x0d00_0001, -1] {
            assert_eq!(Stability::from_word(word), None, "{word:#x}");
        }
    }
}
