// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

// The 25 flaws of upstream's provider v1.2.0 that were found by reading its code and by measurements. The last column
// names the test, or the scenario of pkg/testenv/script/table, which shows that this controller does not have the flaw.
//
//	    upstream                                                       here                                               test
//	 1  destroyed VM: its Node stays for ever                          deleted, once its VM is proven to be destroyed     TestInstanceExists (pkg/node), TestScripts/life (test/e2e)
//	 2  stopped VM: no shutdown taint, an error every 5 s              tainted                                            TestInstanceShutdown (pkg/node), TestScripts/life (test/e2e)
//	 3  rule created, members not: "up to date", no traffic            the next sync adds the members                     TestPromiseNothingIsLostLeakedOrStolen
//	 4  several source ranges never converge on 4.22                   read back as written, whatever the separator       "a Service on every release"
//	 5  rules without source ranges are deleted and recreated          kept, nothing is changed                           "what older providers leave is taken over"
//	 6  PROXY protocol on a live Service: 537 for ever                 switched in place                                  "the PROXY protocol on every release"
//	 7  PROXY protocol in a VPC: ACL item of protocol tcp-proxy        ACL items are tcp                                 "PROXY protocol in a VPC"
//	 8  one ACL item for all Services, maybe the operator's own        items of each Service, told apart                 "ACL items are the Service's own"
//	 9  shared address released with the first Service                 with the last                                      "the address is released with the last Service that uses it"
//	10  a failed release leaks the address                             the Service stays until the release succeeds       "a failed release leaks nothing"
//	11  a crash between address and first rule leaks the address       found again, used, released                       "a crash after the address leaks nothing"
//	12  more than 500 VMs: no node is found                            all pages are read                                 TestPaging (pkg/cloudstack)
//	13  a VM without NIC crashes the process                           that node does not serve                           TestVMWithoutNIC (pkg/node)
//	14  the first NIC counts, a second network fails all Services      the network that all nodes share                   "nodes in several networks"
//	15  Node with an FQDN: balanced, but never initialised             all controllers find it by its first label         "a Node that is named by its FQDN serves", "the role of CKS's clusters is enough for Nodes of a project"
//	16  no eligible node: error, the old members stay                  no members, and an Event                           "a Service through its life"
//	17  members removed by hand stay away                              assigned again                                     "drift is repaired"
//	18  rule without protocol: never deleted                           deleted with the Service                           "what older providers leave is taken over"
//	19  project and a user's key: the Service is never deleted         deleted                                            TestPromiseNothingIsLostLeakedOrStolen
//	20  the network of an unknown address: all networks are listed     the error of the read                              "a failed read of an address is an error"
//	21  a new loadBalancerIP is ignored                                the Service moves                                  TestPromiseNothingIsLostLeakedOrStolen
//	22  a firewall rule that was not deleted stays open                deletion is retried before the Service is gone     TestPromiseNothingIsLostLeakedOrStolen
//	23  zone: racy, and VMs of other zones are taken                   VMs of the zone alone; safe at once                TestSnapshotLookups (pkg/inventory)
//	24  a version of less than three parts crashes the process         no version is read                                 "a Service on every release"
//	25  GetLoadBalancer omits the hostname                             returns it                                         "a Service through its life"
