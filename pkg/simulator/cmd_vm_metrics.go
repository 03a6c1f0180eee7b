// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "fmt"

// vmMetrics is a VM with human-readable metrics.
type vmMetrics struct {
	CPUTotal  string `json:"cputotal"`
	MemTotal  string `json:"memorytotal"`
	NetRead   string `json:"networkread,omitempty"`
	NetWrite  string `json:"networkwrite,omitempty"`
	DiskRead  string `json:"diskread,omitempty"`
	DiskWrite string `json:"diskwrite,omitempty"`
	DiskIOPS  *int   `json:"diskiopstotal,omitempty"`
	vmView
	DomainPath string `json:"domainpath,omitempty"` // this command omits the field
}

func listVirtualMachinesMetrics(c *call) (any, error) {
	out, details, err := c.listedVMs()
	if err != nil {
		return nil, err
	}
	return page(c, "virtualmachine", out, func(v *vm) vmMetrics {
		m := vmMetrics{
			CPUTotal: fmt.Sprintf("%.1f Ghz", float64(v.offering.cpuNumber*v.offering.cpuSpeed)/1000),
			MemTotal: fmt.Sprintf("%.2f GiB", float64(v.offering.memMB)/1024), vmView: c.viewVM(v, details),
		}
		if s := m.vmStats; s != nil {
			mib := func(kib int) string { return fmt.Sprintf("%.2f MiB", float64(kib)/1024) }
			m.NetRead, m.NetWrite, m.DiskRead, m.DiskWrite = mib(s.NetRead), mib(s.NetWrite), mib(s.DiskRead), mib(s.DiskWrite)
			m.DiskIOPS = ptr(s.IORead + s.IOWrite)
		}
		return m
	})
}
