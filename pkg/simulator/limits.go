// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// checkLimit refuses to take n more of a resource than the owner's limit leaves.
// resource is a key of defaultLimits.
func (c *call) checkLimit(owner *account, resource string, n int64) error {
	limit := owner.limit(resource)
	if pick(c.faults, FaultQuota) != nil {
		limit = c.st.used(owner, resource)
	}
	if limit < 0 || c.st.used(owner, resource)+n <= limit {
		return nil
	}
	return errf(codeAccountLimit, csAccountLimit, "Maximum amount of resources of Type = '%s', tag = 'null' for Account Name = %s in Domain Id = %s is exceeded: "+
		"Account Resource Limit = %d, Current Account Resource Amount = %d, Current Account Resource Reservation = 0, Requested Resource Amount = %d.",
		resource, owner.name, owner.domain.uuid, limit, c.st.used(owner, resource), n)
}

// used is how much of a resource counts against the owner's limit.
func (st *state) used(owner *account, resource string) int64 {
	var n int64
	switch resource {
	case "publicIPs":
		return st.countIPs(owner)
	case "virtualMachines", "volumes", "cpus", "memoryMiB":
		for _, v := range st.vms.rows {
			if v.owner != owner || v.gone() {
				continue
			}
			switch resource {
			case "cpus":
				n += int64(v.offering.cpuNumber)
			case "memoryMiB":
				n += int64(v.offering.memMB)
			default:
				n++
			}
		}
	case "networks":
		for _, o := range st.networks.rows {
			if o.owner == owner && !o.removed {
				n++
			}
		}
	case "vpcs":
		for _, v := range st.vpcs.rows {
			if v.owner == owner && !v.removed {
				n++
			}
		}
	}
	return n
}
