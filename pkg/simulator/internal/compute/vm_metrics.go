// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// vmMetrics is a VM with human-readable metrics.
type vmMetrics struct {
	CPUTotal  string `json:"cputotal"`
	MemTotal  string `json:"memorytotal"`
	NetRead   string `json:"networkread,omitempty"`
	NetWrite  string `json:"networkwrite,omitempty"`
	DiskRead  string `json:"diskread,omitempty"`
	DiskWrite string `json:"diskwrite,omitempty"`
	DiskIOPS  *int   `json:"diskiopstotal,omitempty"`
	view.VMView
	DomainPath string `json:"domainpath,omitempty"` // this command omits the field
}

func listVirtualMachinesMetrics(c *wire.Call) (any, error) {
	out, details, err := listedVMs(c)
	if err != nil {
		return nil, err
	}
	return wire.Page(c, "virtualmachine", out, func(v *store.VM) vmMetrics {
		m := vmMetrics{
			CPUTotal: fmt.Sprintf("%.1f Ghz", float64(v.Offering.CPUNumber*v.Offering.CPUSpeed)/1000),
			MemTotal: fmt.Sprintf("%.2f GiB", float64(v.Offering.MemMB)/1024), VMView: view.ViewVM(c, v, details),
		}
		if s := m.VMStats; s != nil {
			mib := func(kib int) string { return fmt.Sprintf("%.2f MiB", float64(kib)/1024) }
			m.NetRead, m.NetWrite, m.DiskRead, m.DiskWrite = mib(s.NetRead), mib(s.NetWrite), mib(s.DiskRead), mib(s.DiskWrite)
			m.DiskIOPS = wire.Ptr(s.IORead + s.IOWrite)
		}
		return m
	})
}
