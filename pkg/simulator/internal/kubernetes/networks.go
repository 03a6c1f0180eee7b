// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// NetworkCreator creates the network of a cluster for which the caller specified none.
type NetworkCreator func(
	c *wire.Call, owner *store.Account, z *store.Zone, o *store.NetworkOffering, name, display string,
) (*store.Network, error)
