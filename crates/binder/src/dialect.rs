//! [`Dialect`]: the Android release whose binder library the peers use. Releases changed the layout
//! of parcels and the methods of the service manager. A transaction does not name its release, so
//! all processes of a context must use the same dialect.

/// The layout that a process of the binder stack writes and reads. Hwbinder's layout never changed.
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
    /// All dialects, oldest first.
    pub const ALL: [Self; 6] = [
        Self::Android10,
        Self::Android11,
        Self::Android12,
        Self::Android13,
        Self::Android15,
        Self::Android16,
    ];

    /// Returns true if interface tokens have the header word `SYST`.
    pub(crate) fn has_header(self) -> bool {
        self != Self::Android10
    }

    /// The word after a binder, if the release writes one (its `Stability.cpp`).
    pub(crate) fn stability_word(self, stability: Stability) -> Option<i32> {
        let level = stability as i32;
        match self {
            Self::Android10 => None,
            Self::Android12 => Some(level << 24 | CATEGORY_VERSION),
            _ => Some(level),
        }
    }
}

/// The first byte of Android 12's stability word. Two reserved bytes and the level follow.
const CATEGORY_VERSION: i32 = 1;

/// The stability level of an object's interface (`Stability.h`). Android's library refuses a call
/// if the level does not cover the caller's partition: a system process calls only `System` and
/// `Vintf` objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Stability {
    /// No stability. Android's library never sends an object with this level.
    Undeclared = 0,
    /// Stable within the vendor partitions.
    Vendor = 0b00_0011,
    /// Stable within the system partition: the level of Android's own processes and of a shell's.
    #[default]
    System = 0b00_1100,
    /// Stable between both partitions (`@VintfStability`).
    Vintf = 0b11_1111,
}

impl Stability {
    /// Decodes a received word, with or without a version. A level is one byte, so a larger word,
    /// or the version alone, must be the form with a version. Returns `None` for an unknown level.
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
    fn stability_words_match_the_android_releases() {
        let words = |stability| Dialect::ALL.map(|dialect| dialect.stability_word(stability));
        assert_eq!(
            words(Stability::System),
            [None, Some(12), Some(0x0c00_0001), Some(12), Some(12), Some(12)]
        );
        assert_eq!(words(Stability::Undeclared)[2], Some(1));
        assert_eq!(words(Stability::Vintf)[1..3], [Some(63), Some(0x3f00_0001)]);
    }

    #[test]
    fn every_written_stability_word_reads_back_and_unknown_levels_are_refused() {
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
