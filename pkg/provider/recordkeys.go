// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"sync"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/seal"
)

// recordKeys are the keys that sign and check the records on Services: that of the secret key in use, then those of
// earlier ones, by which records are recognised until they are signed again.
type recordKeys struct {
	mu   sync.Mutex
	keys []string
}

// use makes the key of a configuration the current one.
func (k *recordKeys) use(cfg *cloudstack.Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = seal.Keys(cfg.SecretKey, append([]string{cfg.PreviousRecordKey}, k.keys...)...)
}

func (k *recordKeys) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.keys)
}
