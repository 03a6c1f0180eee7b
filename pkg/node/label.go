// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelForm is the way a service offering's name becomes a label value.
type LabelForm string

// Forms of the instance type label.
const (
	// LabelKeepSeparators turns each character that a label cannot hold into an underscore:
	// "Small Instance" becomes Small_Instance, m1.large stays.
	LabelKeepSeparators LabelForm = "keep-separators"
	// LabelUpstream drops all but ASCII letters and digits, as upstream's provider v1.2.0 does:
	// "Small Instance" becomes SmallInstance, m1.large becomes m1large.
	LabelUpstream LabelForm = "upstream"
)

// ParseLabelForm reads the value of --instance-type-format.
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

// InstanceTypeLabel turns a service offering's name into a label value; it is empty when nothing of the
// name can be kept.
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

// LabelValue makes a valid label value of any text: at most 63 characters, letters and digits at both
// ends, and an underscore for each character that a label cannot hold.
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

// clip takes an ASCII string. The front is trimmed before the length is cut, so that a prefix of
// separators costs nothing of the name.
func clip(s string) string {
	const separators = "-_."
	s = strings.TrimLeft(s, separators)
	if len(s) > validation.LabelValueMaxLength {
		s = s[:validation.LabelValueMaxLength]
	}
	return strings.TrimRight(s, separators)
}
