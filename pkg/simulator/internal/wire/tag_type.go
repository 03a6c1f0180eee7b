// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// TagType finds a type by its name, ignoring case.
func TagType(s string) (*store.TagKind, *Error) {
	for i := range store.TagKinds {
		if strings.EqualFold(store.TagKinds[i].Name, s) {
			return &store.TagKinds[i], nil
		}
	}
	return nil, Invalid("Invalid resource type %s", s)
}
