// A block of code that scrolls is reached with the keyboard. The theme does this only where there is a mouse, and takes
// it back elsewhere when the size of a block changes: this comes after it.
const reached = new ResizeObserver(entries => setTimeout(() => {
  for (const {target} of entries) if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
}));
for (const block of document.querySelectorAll('pre > code')) reached.observe(block);
