// What a person could not read on the page as it is now: what is wider than its box, and texts over each other.
() => {
    const root = document.scrollingElement, found = [];
    const named = (one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 60)}`;
    if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} wide`);
    const unseen = (one) => !one.checkVisibility({visibilityProperty: true}) || one.closest(".hidden, .skip, thead");
    for (const one of document.querySelectorAll("body *")) {
        if (unseen(one) || one.closest("svg") || getComputedStyle(one).display === "inline") continue;
        const scrolls = ["auto", "scroll"].includes(getComputedStyle(one).overflowX) || one.matches("details > summary");  // It opens.
        if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth && !scrolls) found.push(`more than its box: ${named(one)}`);
        const box = one.getBoundingClientRect(), outer = one.parentElement.getBoundingClientRect();
        if (!one.closest(".wide") && outer.width && (box.right > outer.right + 1 || box.left < outer.left - 1)
            && getComputedStyle(one).position === "static") found.push(`wider than what it is in: ${named(one)}`);
    }
    const texts = [], walker = document.createTreeWalker(document.querySelector("dialog[open]") || document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const one = walker.currentNode;
        if (!one.textContent.trim() || unseen(one.parentElement) || one.parentElement.closest("option, details:not([open]) > :not(summary)")
            || one.parentElement.matches("details:not([open])")) continue;
        const range = document.createRange();
        range.selectNodeContents(one);
        const clips = ["summary", ".wide"].map((name) => one.parentElement.closest(name)?.getBoundingClientRect()).filter(Boolean);
        const last = one.parentElement.closest(".records tr")?.lastElementChild;  // It stays beside what is scrolled.
        if (last && !last.contains(one)) clips.push({right: last.getBoundingClientRect().left || Infinity});
        const right = Math.min(...clips.map((clip) => clip.right), Infinity);
        for (const {left, right: end, top, bottom, width} of range.getClientRects())
            if (width > 1 && left < right) texts.push([{left, right: Math.min(right, end), top, bottom}, one]);
    }
    texts.sort(([a], [b]) => a.top - b.top);
    texts.forEach(([a, one], at) => {
        for (const [b, other] of texts.slice(at + 1)) {
            if (b.top >= a.bottom - 4) break;
            if (other !== one && a.left < b.right - 2 && b.left < a.right - 2) found.push(`${one.textContent.slice(0, 40)} is over ${other.textContent.slice(0, 40)}`);
        }
    });
    return [...new Set(found)].slice(0, 20);
}
