// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso"
)

// provider.yaml of an ISO for CKS is what each minor of Kubernetes takes.
func TestProviderOfCKSFitsEachMinorOfKubernetes(t *testing.T) {
	t.Parallel()
	for _, minor := range minors {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()
			provider, err := iso.Provider(t.Context(), load(t), nil, minor+".1")
			require.NoError(t, err)
			schemas := loadAPISchemas(t, minor, operatorSchemas(t))
			all := documents(provider)
			require.Greater(t, len(all), 10)
			for _, document := range all {
				require.NoError(t, schemas.check(document), document)
			}
		})
	}
}
