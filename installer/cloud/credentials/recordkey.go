// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/seal"
)

// CarryRecordKey prepares next, a cloud-config that replaces was. The controller signs its records on Services with a
// key that is derived from the secret key: where that changes, the derived key of the old one goes along, so that the
// controller still believes the records that it wrote before, also after a restart.
func CarryRecordKey(next, was *cloudstack.Config) {
	switch {
	case was == nil || was.SecretKey == "":
	case was.SecretKey == next.SecretKey:
		next.PreviousRecordKey = was.PreviousRecordKey
	default:
		next.PreviousRecordKey = seal.DeriveKey(was.SecretKey)
	}
}
