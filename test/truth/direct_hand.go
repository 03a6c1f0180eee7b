//go:build linux

package main

// TEMPORARY: does by API calls what the controller will do.

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var byHand = os.Getenv("BYHAND") != ""

func (e *env) direct(ctx context.Context, name string, ports []corev1.ServicePort, change func(*corev1.Service)) (netip.Addr, error) {
	var s *corev1.Service
	err := e.service(ctx, name, func(x *corev1.Service) {
		x.Spec.Ports = ports
		x.Annotations[prefix+"mode"] = "direct"
		if change != nil {
			change(x)
		}
		if byHand {
			x.Spec.Type = corev1.ServiceTypeNodePort
			x.Spec.LoadBalancerSourceRanges = nil
		}
		s = x
	})
	if err != nil {
		return netip.Addr{}, err
	}
	if !byHand {
		ip, err := e.address(ctx, name)
		if err != nil {
			return ip, err
		}
		return ip, e.until(ctx, "forwards of "+ip.String(), func(context.Context) error {
			if n := len(e.forwardsOf(ip)); n < len(ports) {
				return fmt.Errorf("%d forwards", n)
			}
			return nil
		})
	}
	s = must(e.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{}))
	nets := must(e.cloud.Admin(ctx, "listNetworks", map[string]string{"listall": "true"}))["network"].([]any)
	var n map[string]any
	for _, x := range nets {
		if strings.HasPrefix(x.(map[string]any)["name"].(string), "k8s-") {
			n = x.(map[string]any)
		}
	}
	vpc, _ := n["vpcid"].(string)
	c := must(e.client())
	_ = c
	ipargs := map[string]string{"networkid": n["id"].(string), "account": account, "domainid": n["domainid"].(string)}
	if vpc != "" {
		delete(ipargs, "networkid")
		ipargs["vpcid"] = vpc
	}
	ip := must(e.cloud.Admin(ctx, "associateIpAddress", ipargs))["ipaddress"].(map[string]any)
	addr := netip.MustParseAddr(ip["ipaddress"].(string))
	var nodes []string
	for _, x := range e.podNodes(ctx) {
		nodes = append(nodes, must(e.vmID(ctx, x)))
	}
	for _, p := range s.Spec.Ports {
		cidrs := []string{""}
		if vpc != "" {
			cidrs = nil
			for i := range 8 {
				cidrs = append(cidrs, fmt.Sprintf("%d.0.0.0/3", i*32))
			}
			must(e.cloud.Admin(ctx, "createNetworkACL", map[string]string{"networkid": n["id"].(string), "protocol": strings.ToLower(string(p.Protocol)), "startport": fmt.Sprint(p.NodePort), "endport": fmt.Sprint(p.NodePort), "cidrlist": "0.0.0.0/0", "action": "allow", "traffictype": "ingress"}))
		}
		for i, cidr := range cidrs {
			args := map[string]string{"ipaddressid": ip["id"].(string), "protocol": strings.ToLower(string(p.Protocol)), "publicport": fmt.Sprint(p.Port), "privateport": fmt.Sprint(p.NodePort), "virtualmachineid": nodes[i%len(nodes)], "openfirewall": "false"}
			if cidr != "" {
				args["cidrlist"] = cidr
				args["networkid"] = n["id"].(string)
			}
			must(e.cloud.Admin(ctx, "createPortForwardingRule", args))
		}
		if vpc == "" {
			must(e.cloud.Admin(ctx, "createFirewallRule", map[string]string{"ipaddressid": ip["id"].(string), "protocol": strings.ToLower(string(p.Protocol)), "startport": fmt.Sprint(p.Port), "endport": fmt.Sprint(p.Port), "cidrlist": "0.0.0.0/0"}))
		}
	}
	return addr, nil
}
