// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/redact"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

func TestURLs(t *testing.T) {
	cases.Run(t, "testdata/urls.yaml", func(t *testing.T, text, want string) {
		require.Equal(t, want, redact.URLs(text))
	})
}
