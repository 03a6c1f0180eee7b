// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"net/netip"
)

// pods builds the hosts of a zone with the clusters and pods that they stand in.
func (b *builder) pods(z *zone, w *Zone) error {
	pods := w.Pods
	if len(w.Hosts) > 0 || len(pods) == 0 {
		hosts := []Host{{Name: "hypervisor-1"}}
		if len(w.Hosts) > 0 {
			hosts = nil
			for _, name := range w.Hosts {
				hosts = append(hosts, Host{Name: name})
			}
		}
		pods = append([]Pod{{Name: "POD0", Clusters: []Cluster{{Name: "C0", Hosts: hosts}}}}, pods...)
	}
	for i := range pods {
		if err := b.pod(z, &pods[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) pod(z *zone, w *Pod) error {
	if w.Name == "" {
		return errors.New("pods: a pod has no name")
	}
	if err := checkID(b.st.pods, "pod", w.Name, w.ID); err != nil {
		return err
	}
	p := b.st.pods.add(&pod{entity: b.entity("pod", w.ID, z.name+"/"+w.Name), name: w.Name, zone: z})
	for i := range w.Clusters {
		c := &w.Clusters[i]
		if c.Name == "" {
			return fmt.Errorf("pod %q: a cluster has no name", w.Name)
		}
		if err := checkID(b.st.clusters, "cluster", c.Name, c.ID); err != nil {
			return err
		}
		row := b.st.clusters.add(&cluster{entity: b.entity("cluster", c.ID, p.uuid+"/"+c.Name), name: c.Name, pod: p})
		for j := range c.Hosts {
			if err := b.host(z, row, &c.Hosts[j]); err != nil {
				return fmt.Errorf("cluster %q: %w", c.Name, err)
			}
		}
	}
	return nil
}

func (b *builder) host(z *zone, c *cluster, w *Host) error {
	if w.Name == "" {
		return errors.New("a host has no name")
	}
	if err := checkID(b.st.hosts, "host", w.Name, w.ID); err != nil {
		return err
	}
	ip := w.IP
	if ip == "" {
		ip = fmt.Sprintf("172.16.15.%d", (len(b.st.hosts.rows)+2)%250)
	}
	if _, err := netip.ParseAddr(ip); err != nil {
		return fmt.Errorf("host %q: ip %q is not an address", w.Name, w.IP)
	}
	b.st.hosts.add(&host{entity: b.entity("host", w.ID, z.name+"/"+w.Name), name: w.Name, ip: ip, zone: z, cluster: c})
	return nil
}
