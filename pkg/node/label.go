// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelForm selects how a service offering's name is converted to a label value.
type LabelForm string

// Forms of the instance type label.
const (
	// LabelKeepSeparators replaces each character that is not allowed in a label value by an underscore:
	// "Small Instance" becomes Small_Instance, m1.large is unchanged.
	LabelKeepSeparators LabelForm = "keep-separators"
	// LabelUpstream removes everything except ASCII letters and digits, as upstream's provider v1.2.0 does:
	// "Small Instance" becomes SmallInstance, m1.large becomes m1large.
	LabelUpstream LabelForm = "upstream"
)

// ParseLabelForm parses the value of --instance-type-format.
func ParseLabelForm(s string) (LabelForm, error) {
	switch f := LabelForm(strings.TrimSpace(s)); f {
	case "":
		return LabelKeepSeparators, nil
	case LabelKeepSeparators, LabelUpstream:
		return f, nil
	default:
		return "", fmt.Errorf("instance type format %q is not known: use %q (Small_Instance, the default) or %q (SmallInstance)",
			s, LabelKeepSeparators, LabelUpstream)
	}
}

// InstanceTypeLabel converts a service offering's name to a label value, which is empty if the name has no
// character that a label value may contain.
func InstanceTypeLabel(form LabelForm, offering string) string {
	if form != LabelUpstream {
		return LabelValue(offering)
	}
	return clip(strings.Map(func(r rune) rune {
		if alphanumeric(r) {
			return r
		}
		return -1
	}, offering))
}

// LabelValue converts any text to a valid label value: at most 63 characters, a letter or digit at both ends,
// and an underscore in place of each character that is not allowed.
func LabelValue(s string) string {
	return clip(strings.Map(func(r rune) rune {
		if alphanumeric(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, s))
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// clip shortens an ASCII string to the maximum length of a label value and trims separators at both ends. It trims
// the front first, so that leading separators do not count towards the length.
func clip(s string) string {
	const separators = "-_."
	s = strings.TrimLeft(s, separators)
	if len(s) > validation.LabelValueMaxLength {
		s = s[:validation.LabelValueMaxLength]
	}
	return strings.TrimRight(s, separators)
}
