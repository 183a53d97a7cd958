"""Stock RDMA tools in a virtual machine with Linux rdma_rxe, as the other end."""
