// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// crowded adds n source ranges and n ports to a Service, and fills its annotations.
func crowded(n int) func(*corev1.Service) {
	return func(s *corev1.Service) {
		var addresses []string
		for i := range n {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges,
				fmt.Sprintf("%d.%d.%d.0/24", 10+i/65536, i/256%256, i%256))
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i%65535 + 1)})
			addresses = append(addresses, fmt.Sprintf("1.%d.%d.1", i/256%256, i%256))
		}
		s.Annotations[annotation.Mode] = annotation.Direct
		s.Annotations[annotation.SourceRangesBeta] = strings.Join(addresses, ",")
		s.Annotations[annotation.ShareWith] = strings.Repeat("shop,", n-1) + "shop"
		s.Annotations[annotation.NodeSelector] = strings.Repeat("a,", n-1) + "a"
		s.Annotations[annotation.ProxyProtocol] = strings.Repeat("80,", n-1) + "80"
	}
}

// The informer's handler handles the Services of all tenants, so one that a tenant makes large must not cost more than
// to receive it. The test counts allocations instead of time, because they do not depend on the machine.
func TestHandlerCostGrowsOnlyWithTheSizeOfAService(t *testing.T) {
	for _, n := range []int{annotation.MaxItems, 20 * annotation.MaxItems} {
		c, _ := idleController(t)
		web := aService("a", "web", crowded(n))
		c.ServiceHandler().OnAdd(web, false)
		v := 1
		cost := testing.AllocsPerRun(5, func() {
			v++
			svc := *web
			svc.ResourceVersion, svc.Labels = strconv.Itoa(v), map[string]string{"v": strconv.Itoa(v)}
			c.ServiceHandler().OnUpdate(&svc, &svc)
		})
		assert.Less(t, cost, 4.0*float64(n), "%d items", n) // 2, and with the race detector somewhat more
		s := c.states[Key{"a", "web"}]
		require.NotNil(t, s)
		require.Equal(t, strconv.Itoa(v), s.svc.ResourceVersion)
	}
}

// Most Services of a cluster are none of type LoadBalancer.
func TestOtherServicesAreNotRead(t *testing.T) {
	c, _ := idleController(t)
	web := aService("a", "web", crowded(annotation.MaxItems))
	web.Spec.Type = corev1.ServiceTypeClusterIP
	assert.Less(t, testing.AllocsPerRun(5, func() { c.ServiceChanged(web) }), 20.0)
	assert.Empty(t, c.states)
}

func BenchmarkHandlerOfTheLargestService(b *testing.B) {
	for _, n := range []int{annotation.MaxItems, 20 * annotation.MaxItems} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c, _ := idleController(b)
			svc := aService("a", "web", crowded(n))
			for v := 1; b.Loop(); v++ {
				svc = svc.DeepCopy()
				svc.ResourceVersion = strconv.Itoa(v)
				c.ServiceHandler().OnUpdate(svc, svc)
			}
		})
	}
}
